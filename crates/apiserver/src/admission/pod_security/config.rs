//! Parses the configuration of PodSecurity: the defaults for namespaces without labels, and the exemptions.

use serde_json::Value;

use super::policy::{NamespacePolicy, SecurityLevel, StandardVersion, Version};

/// The defaults for namespaces without labels, and the exemptions.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodSecurityConfig {
    defaults: NamespacePolicy,
    users: Vec<String>,
    namespaces: Vec<String>,
    runtime_classes: Vec<String>,
}

impl PodSecurityConfig {
    /// Parses a `PodSecurityConfiguration`.
    pub(crate) fn parse(document: &Value) -> Result<Self, String> {
        let kind = (document["kind"].as_str(), document["apiVersion"].as_str());
        let versions =
            ["v1", "v1beta1", "v1alpha1"].map(|one| format!("pod-security.admission.config.k8s.io/{one}"));
        if kind.0 != Some("PodSecurityConfiguration") || !versions.iter().any(|one| kind.1 == Some(one)) {
            return Err("the configuration of PodSecurity must be a PodSecurityConfiguration".to_owned());
        }
        let standard = |mode: &str| {
            let text =
                |name: &str, absent: &str| document["defaults"][name].as_str().unwrap_or(absent).to_owned();
            let (level, version) = (text(mode, "privileged"), text(&format!("{mode}-version"), "latest"));
            Ok::<_, String>(StandardVersion {
                level: SecurityLevel::parse(&level).ok_or_else(|| {
                    format!("defaults.{mode}: must be one of privileged, baseline, restricted")
                })?,
                version: Version::parse(&version)
                    .ok_or_else(|| format!("defaults.{mode}-version: must be \"latest\" or \"v1.x\""))?,
            })
        };
        standard("audit")?;
        let list = |name: &str| {
            let items = document["exemptions"][name].as_array().into_iter().flatten();
            items.filter_map(Value::as_str).map(ToOwned::to_owned).collect()
        };
        Ok(Self {
            defaults: NamespacePolicy {
                enforce: standard("enforce")?,
                audit: standard("audit")?,
                warn: standard("warn")?,
            },
            users: list("usernames"),
            namespaces: list("namespaces"),
            runtime_classes: list("runtimeClasses"),
        })
    }

    pub(super) fn defaults(&self) -> NamespacePolicy {
        self.defaults
    }

    pub(super) fn has_defaults(&self) -> bool {
        self.defaults != NamespacePolicy::default()
    }

    pub(super) fn exempts_namespace(&self, name: &str) -> bool {
        self.namespaces.iter().any(|one| one == name)
    }

    pub(super) fn exempts_user(&self, name: &str) -> bool {
        self.users.iter().any(|one| one == name)
    }

    pub(super) fn exempts_runtime_class(&self, name: &str) -> bool {
        self.runtime_classes.iter().any(|one| one == name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_and_exemptions_are_read() {
        let mut document = json!({"kind": "PodSecurityConfiguration",
            "apiVersion": "pod-security.admission.config.k8s.io/v1",
            "defaults": {"enforce": "baseline", "enforce-version": "v1.30"},
            "exemptions": {"usernames": ["jane"], "namespaces": ["kube-system"], "runtimeClasses": ["odd"]}});
        let config = PodSecurityConfig::parse(&document).expect("it is fine");
        assert!(config.has_defaults() && config.defaults().enforce.to_string() == "baseline:v1.30");
        assert!(config.exempts_user("jane") && !config.exempts_user("joe"));
        assert!(config.exempts_namespace("kube-system") && config.exempts_runtime_class("odd"));
        document["defaults"]["warn"] = json!("odd");
        assert!(PodSecurityConfig::parse(&document).is_err_and(|why| why.starts_with("defaults.warn")));
    }
}
