//! Expands the Kubernetes macros that the parser does not know into the loops they stand for.
//!
//! The forms with two variables become comprehensions like those the parser builds. `optMap`, `optFlatMap` and
//! `sortBy` stay calls: they evaluate their target once, and the checker, the estimate and the evaluation handle them
//! specially. A node built here has an id that leads back to the call it came from.

use cel::IdedExpr;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, MapExpr, operators,
};
use kube_cel::cel;

/// The name that the parser gives to the accumulator of a loop.
pub(super) const COLLECTED: &str = "@result";

/// Inserts an entry into the map that a loop accumulates.
pub(super) const MAP_INSERT: &str = "cel.@mapInsert";

/// The bits of an id above this position hold the id of the original call.
const MADE: u32 = 32;

/// Returns the id under which the parser knows the position of a node.
pub(super) fn origin(id: u64) -> u64 {
    if id >> MADE == 0 { id } else { id >> MADE }
}

/// Returns the variable of a call, if it is one of the forms that declare their own variable.
pub(super) fn variable_of_form(call: &CallExpr) -> Option<&str> {
    let (Some(_), [variable, _], "optMap" | "optFlatMap" | "sortBy") =
        (&call.target, &*call.args, &*call.func_name)
    else {
        return None;
    };
    match &variable.expr {
        Expr::Ident(name) => Some(name),
        _ => None,
    }
}

/// Expands all macros in an expression.
pub(super) fn expand(mut node: IdedExpr) -> IdedExpr {
    for child in children(&mut node.expr) {
        *child = expand(std::mem::take(child));
    }
    match node.expr {
        Expr::Call(call) => NodeFactory { from: node.id, made: 0 }.call(call),
        expr => IdedExpr { id: node.id, expr },
    }
}

fn children(expr: &mut Expr) -> Vec<&mut IdedExpr> {
    match expr {
        Expr::Call(call) => call.target.as_deref_mut().into_iter().chain(&mut call.args).collect(),
        Expr::Comprehension(fold) => {
            vec![
                &mut fold.iter_range,
                &mut fold.accu_init,
                &mut fold.loop_cond,
                &mut fold.loop_step,
                &mut fold.result,
            ]
        }
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Map(map) => map.entries.iter_mut().flat_map(|entry| entry_parts(&mut entry.expr)).collect(),
        Expr::Struct(object) => {
            object.entries.iter_mut().flat_map(|entry| entry_parts(&mut entry.expr)).collect()
        }
        Expr::Select(select) => vec![&mut select.operand],
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
    }
}

fn entry_parts(entry: &mut EntryExpr) -> Vec<&mut IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&mut field.value],
        EntryExpr::MapEntry(entry) => vec![&mut entry.key, &mut entry.value],
    }
}

struct NodeFactory {
    from: u64,
    made: u64,
}

impl NodeFactory {
    fn call(mut self, mut call: CallExpr) -> IdedExpr {
        let names = match &*call.args {
            [IdedExpr { expr: Expr::Ident(key), .. }, IdedExpr { expr: Expr::Ident(value), .. }, _, ..]
                if key != value =>
            {
                Some((key.clone(), value.clone()))
            }
            _ => None,
        };
        let (Some((key, value)), Some(target)) =
            (names, call.target.take_if(|_| is_two_variable(&call.func_name, call.args.len())))
        else {
            return IdedExpr { id: self.from, expr: Expr::Call(call) };
        };
        let body = call.args.split_off(2);
        let (accu_init, loop_cond, loop_step, result) = self.parts(&call.func_name, &key, body);
        let fold = ComprehensionExpr {
            iter_range: *target,
            iter_var: key,
            iter_var2: Some(value),
            accu_var: COLLECTED.to_owned(),
            accu_init,
            loop_cond,
            loop_step,
            result,
        };
        IdedExpr { id: self.from, expr: Expr::Comprehension(Box::new(fold)) }
    }

    /// Returns the start, condition, step and result of the loop that a macro stands for.
    fn parts(
        &mut self,
        function: &str,
        key: &str,
        mut body: Vec<IdedExpr>,
    ) -> (IdedExpr, IdedExpr, IdedExpr, IdedExpr) {
        let last = body.pop().unwrap_or_default();
        let filter = body.pop();
        match function {
            "all" => {
                let condition = self.collected();
                let condition = self.operator(operators::NOT_STRICTLY_FALSE, vec![condition]);
                let parts = vec![self.collected(), last];
                let step = self.operator(operators::LOGICAL_AND, parts);
                (self.truth(true), condition, step, self.collected())
            }
            "exists" => {
                let collected = self.collected();
                let none_yet = self.operator(operators::LOGICAL_NOT, vec![collected]);
                let condition = self.operator(operators::NOT_STRICTLY_FALSE, vec![none_yet]);
                let parts = vec![self.collected(), last];
                let step = self.operator(operators::LOGICAL_OR, parts);
                (self.truth(false), condition, step, self.collected())
            }
            "existsOne" | "exists_one" => {
                let parts = vec![self.collected(), self.number(1)];
                let more = self.operator(operators::ADD, parts);
                let same = self.collected();
                let step = self.operator(operators::CONDITIONAL, vec![last, more, same]);
                let parts = vec![self.collected(), self.number(1)];
                let result = self.operator(operators::EQUALS, parts);
                (self.number(0), self.truth(true), step, result)
            }
            "transformList" => {
                let item = self.node(Expr::List(ListExpr::new(vec![last])));
                let parts = vec![self.collected(), item];
                let step = self.operator(operators::ADD, parts);
                let start = self.node(Expr::List(ListExpr::default()));
                (start, self.truth(true), self.filtered(filter, step), self.collected())
            }
            function => {
                let mut parts = vec![self.collected()];
                if function == "transformMap" {
                    parts.push(self.node(Expr::Ident(key.to_owned())));
                }
                parts.push(last);
                let step = self.operator(MAP_INSERT, parts);
                let start = self.node(Expr::Map(MapExpr::default()));
                (start, self.truth(true), self.filtered(filter, step), self.collected())
            }
        }
    }

    fn filtered(&mut self, filter: Option<IdedExpr>, step: IdedExpr) -> IdedExpr {
        let Some(filter) = filter else { return step };
        let same = self.collected();
        self.operator(operators::CONDITIONAL, vec![filter, step, same])
    }

    fn operator(&mut self, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
        self.node(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
    }

    fn collected(&mut self) -> IdedExpr {
        self.node(Expr::Ident(COLLECTED.to_owned()))
    }

    fn truth(&mut self, is_true: bool) -> IdedExpr {
        self.node(Expr::Literal(LiteralValue::Boolean(is_true.into())))
    }

    fn number(&mut self, number: i64) -> IdedExpr {
        self.node(Expr::Literal(LiteralValue::Int(number.into())))
    }

    fn node(&mut self, expr: Expr) -> IdedExpr {
        self.made += 1;
        IdedExpr { id: (self.from << MADE) | self.made, expr }
    }
}

fn is_two_variable(function: &str, arguments: usize) -> bool {
    match function {
        "all" | "exists" | "existsOne" | "exists_one" => arguments == 3,
        "transformList" | "transformMap" | "transformMapEntry" => arguments == 3 || arguments == 4,
        _ => false,
    }
}
