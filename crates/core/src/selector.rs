//! Which objects are meant: label and field selectors.
