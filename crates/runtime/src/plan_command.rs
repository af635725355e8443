//! Parses the options of the `plan` command on the command line of an operator and of `homeostat`. The plan itself
//! needs a control plane in memory and is computed elsewhere: see [`Operator::planner`](crate::Operator::planner).

/// What to plan, and the form of the output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanOptions {
    /// The files that contain the objects; `-` is stdin.
    pub files: Vec<String>,
    /// Deletes the objects instead of applying them.
    pub is_delete: bool,
    /// The namespace for objects that do not specify one; by default the kubeconfig's.
    pub namespace: Option<String>,
    /// Refuses a change that deletes or replaces more objects than this.
    pub deletes_max: Option<usize>,
    /// Prints JSON.
    pub json: bool,
}

impl PlanOptions {
    /// Takes one command-line argument; returns whether it is one of these options.
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

    /// Returns an error if something is missing.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.files.is_empty() {
            Err("plan needs -f FILE with the objects to apply".to_owned())
        } else {
            Ok(())
        }
    }
}
