//! Keep actual state equal to desired state.
