//! Splits a label selector into tokens. Blanks separate tokens, a NUL byte ends a token, and every symbol is a token of
//! its own except `==` and `!=`.

/// One token of a label selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A key or a value; also `in` and `notin`, which are operators only by their position.
    Word(&'a str),
    /// One of `=` `==` `!=` `!` `(` `)` `,` `<` `>`.
    Symbol(&'a str),
    End,
}

impl<'a> Token<'a> {
    /// Returns the text as error messages show it.
    pub(super) fn text(self) -> &'a str {
        match self {
            Self::Word(text) | Self::Symbol(text) => text,
            Self::End => "",
        }
    }

    pub(super) fn is(self, symbol: &str) -> bool {
        self == Token::Symbol(symbol)
    }
}

/// The remaining text, and the token in front of it.
#[derive(Debug)]
pub(super) struct Lexer<'a> {
    rest: &'a str,
    next: Token<'a>,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut lexer = Self { rest: text, next: Token::End };
        lexer.take();
        lexer
    }

    /// Returns the next token.
    pub(super) fn peek(&self) -> Token<'a> {
        self.next
    }

    /// Consumes and returns the next token.
    pub(super) fn take(&mut self) -> Token<'a> {
        let following = self.scan();
        std::mem::replace(&mut self.next, following)
    }

    fn scan(&mut self) -> Token<'a> {
        self.rest = self.rest.trim_start_matches(is_blank);
        let is_end = |letter: char| letter == '\0' || is_blank(letter) || is_symbol(letter);
        let length = match self.rest.chars().next() {
            None | Some('\0') => return Token::End,
            Some(first) if is_symbol(first) => return self.symbol(),
            Some(_) => self.rest.find(is_end).unwrap_or(self.rest.len()),
        };
        let word = self.cut(length);
        self.rest = self.rest.strip_prefix('\0').unwrap_or(self.rest);
        Token::Word(word)
    }

    fn symbol(&mut self) -> Token<'a> {
        let is_double = self.rest.starts_with("==") || self.rest.starts_with("!=");
        Token::Symbol(self.cut(if is_double { 2 } else { 1 }))
    }

    fn cut(&mut self, length: usize) -> &'a str {
        let (front, rest) = self.rest.split_at(length);
        self.rest = rest;
        front
    }
}

fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\r' | '\n')
}

fn is_symbol(letter: char) -> bool {
    matches!(letter, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}
