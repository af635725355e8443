//! Determines which plugins are enabled: Kubernetes' defaults, adjusted by name.
//!
//! Every name that kube-apiserver v1.36 knows may be disabled. Only a plugin that exists here can be enabled: a server
//! that pretended to enforce something would be worse than one that refuses to start.

use std::collections::BTreeSet;

use serde_json::Value;

use super::PLUGINS;
use super::pod_security::PodSecurityConfig;

/// The kube-apiserver plugins that this server lacks. They are off by default, or would have no effect here.
const OTHERS: [&str; 22] = [
    "AlwaysAdmit",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "LimitPodHardAntiAffinityTopology",
    "NodeRestriction",
    "AlwaysPullImages",
    "ImagePolicyWebhook",
    "PodNodeSelector",
    "PodTolerationRestriction",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "PodGroupProtection",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "ClusterTrustBundleAttest",
    "DenyServiceExternalIPs",
    "PodTopologyLabels",
    "PodGroupWorkloadExists",
    "NodeDeclaredFeatureValidator",
    "JobValidation",
    "PodResizeValidator",
    "AlwaysDeny",
];

/// The reason a plugin configuration is invalid, with Kubernetes' wording where it has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginNameError {
    /// Kubernetes has no plugin with this name.
    #[error("{flag} plugin {name:?} is unknown")]
    Unknown {
        /// The flag that contains the name.
        flag: &'static str,
        /// The name.
        name: String,
    },
    /// The same plugins are both enabled and disabled.
    #[error("[{names}] in enable-admission-plugins and disable-admission-plugins overlapped")]
    Overlapped {
        /// Their names.
        names: String,
    },
    /// This server does not have the plugin.
    #[error("enable-admission-plugins plugin {name:?} does not exist in this server")]
    Missing {
        /// The name.
        name: String,
    },
}

/// The configuration of a server's admission plugins.
#[derive(Clone, Debug, Default)]
pub struct AdmissionConfig {
    disabled: BTreeSet<String>,
    pub(super) pod_security: PodSecurityConfig,
}

impl AdmissionConfig {
    /// Returns Kubernetes' default plugins without the `disabled` ones.
    ///
    /// # Errors
    /// Fails if a name is unknown, is both enabled and disabled, or is enabled but does not exist here.
    pub fn new(enabled: &[String], disabled: &[String]) -> Result<Self, PluginNameError> {
        let exists = |name: &str| PLUGINS.iter().any(|plugin| plugin.name == name);
        let is_known = |name: &str| exists(name) || OTHERS.contains(&name);
        for (flag, names) in [("enable-admission-plugins", enabled), ("disable-admission-plugins", disabled)]
        {
            if let Some(name) = names.iter().find(|name| !is_known(name)) {
                return Err(PluginNameError::Unknown { flag, name: name.clone() });
            }
        }
        let disabled = disabled.iter().cloned().collect::<BTreeSet<_>>();
        let both = enabled.iter().filter(|name| disabled.contains(*name)).map(String::as_str);
        let both = both.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>();
        if !both.is_empty() {
            return Err(PluginNameError::Overlapped { names: both.join(" ") });
        }
        if let Some(name) = enabled.iter().find(|name| !exists(name)) {
            return Err(PluginNameError::Missing { name: name.clone() });
        }
        Ok(Self { disabled, ..Self::default() })
    }

    /// Returns Kubernetes' default plugins without ServiceAccount, which suits most operator tests.
    #[must_use]
    pub fn without_service_accounts() -> Self {
        Self { disabled: [super::service_account::PLUGIN.name.to_owned()].into(), ..Self::default() }
    }

    /// Reads the configuration of the plugins from an `AdmissionConfiguration` in YAML or JSON. Only PodSecurity has a
    /// configuration.
    ///
    /// # Errors
    /// Fails if the text is not such a document, or configures an unknown plugin.
    pub fn configured(mut self, text: &str) -> Result<Self, String> {
        let document: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        if document["kind"] != "AdmissionConfiguration" {
            return Err("it must be an AdmissionConfiguration of apiserver.config.k8s.io/v1".to_owned());
        }
        for plugin in document["plugins"].as_array().into_iter().flatten() {
            match (plugin["name"].as_str().unwrap_or_default(), &plugin["configuration"]) {
                ("PodSecurity", configuration) if configuration.is_object() => {
                    self.pod_security = PodSecurityConfig::parse(configuration)?;
                }
                (name, _) => {
                    return Err(format!(
                        "the plugin {name:?} cannot be configured: only PodSecurity can, in place"
                    ));
                }
            }
        }
        Ok(self)
    }

    /// Returns whether a plugin is enabled.
    pub(super) fn is_enabled(&self, name: &str) -> bool {
        !self.disabled.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_names_are_refused_in_the_words_of_kubernetes() {
        let names = |text: &str| text.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>();
        let check = |enabled: &str, disabled: &str, expected: &str| {
            let outcome = AdmissionConfig::new(&names(enabled), &names(disabled));
            assert_eq!(outcome.map_or_else(|error| error.to_string(), |_| String::new()), expected);
        };
        check("", "ServiceAccount NamespaceLifecycle", "");
        check("LimitRanger", "AlwaysPullImages", "");
        check("", "Nonsense", "disable-admission-plugins plugin \"Nonsense\" is unknown");
        check("Nonsense", "", "enable-admission-plugins plugin \"Nonsense\" is unknown");
        let both =
            "[LimitRanger Priority] in enable-admission-plugins and disable-admission-plugins overlapped";
        check("Priority LimitRanger", "LimitRanger Priority", both);
        let missing = "enable-admission-plugins plugin \"AlwaysPullImages\" does not exist in this server";
        check("AlwaysPullImages", "", missing);
    }

    #[test]
    fn every_plugin_of_kubernetes_is_named_once() {
        let mut names = PLUGINS.iter().map(|plugin| plugin.name).chain(OTHERS).collect::<Vec<_>>();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!((count, names.len()), (41, 41));
    }
}
