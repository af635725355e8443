//! The options of the command `plan`, on the command line of an operator and of `homeostat`. The plan itself needs a
//! control plane in memory and is made elsewhere: see [`Operator::planner`](crate::Operator::planner).

/// What to plan, and the form of the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanOptions {
    /// The files with the objects; `-` is stdin.
    pub files: Vec<String>,
    /// Deletes the objects instead of applying them.
    pub is_delete: bool,
    /// The namespace of objects that name none; the one of the kubeconfig by default.
    pub namespace: Option<String>,
    /// Refuses a change that deletes or replaces more objects than this.
    pub deletes_max: Option<usize>,
    /// Prints JSON.
    pub json: bool,
}

impl PlanOptions {
    /// Takes one argument of the command line; returns whether it is one of these options.
    pub(crate) fn set(
        &mut self,
        name: &str,
        value: &mut dyn FnMut() -> Result<String, String>,
    ) -> Result<bool, String> {
        match name {
            "-f" | "--filename" => self.files.push(value()?),
            "--delete" => self.is_delete = true,
            "-n" | "--namespace" => self.namespace = Some(value()?),
            "--json" => self.json = true,
            "--max-deletes" => {
                let text = value()?;
                let number = text.parse().map_err(|_| format!("--max-deletes needs a number, not {text}"))?;
                self.deletes_max = Some(number);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Says what is missing.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.files.is_empty() {
            Err("plan needs -f FILE with the objects to apply".to_owned())
        } else {
            Ok(())
        }
    }
}
