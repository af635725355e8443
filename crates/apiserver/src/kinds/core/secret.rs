//! Secret: confidential data for Pods to read.

use crate::kinds::declaration::Kind;
use crate::kinds::printing::Column;
use crate::kinds::selectable::{Absent, Selectable};
use crate::kinds::{defaults, prepare, validate};
use crate::table::cells;

/// Confidential data for Pods to read.
pub(crate) static SECRET: Kind = Kind {
    defaults: Some(defaults::core::secret),
    fold_aliases: Some(prepare::core::fold_string_data),
    prepare_create: Some(|_, fields, _| {
        prepare::core::fold_string_data(fields);
        Ok(())
    }),
    prepare_update: Some(|fields, _| prepare::core::fold_string_data(fields)),
    validate: Some(validate::config::secret),
    validate_update: Some(validate::config::secret_update),
    columns: &[Column::NAME, Column::text("Type"), Column::text("Data"), Column::text("Age")],
    cells: Some(cells::core::secret),
    selectable: Selectable::fields(&[("type", Absent::Empty)]),
    ..Kind::namespaced("", "v1", "secrets", "Secret")
};
