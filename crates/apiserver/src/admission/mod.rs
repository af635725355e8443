//! Admission consists of plugins, webhooks and policies that may change or refuse a write, in addition to the kind's
//! own rules.
//!
//! Reading order: `request` (the information that plugins get about a write), `plugin` (the interface of a plugin),
//! `config` (which plugins are enabled), then one file per plugin, in the order in which kube-apiserver runs them
//! (`PLUGINS`).
//!
//! **Invariant:** every mutating plugin runs before every validating one, each group in the order of `PLUGINS`.
//! **Invariant:** a plugin is only called for resources that it is interested in. This is decided once per row, so a
//! write pays only for the plugins that apply to it.

mod certificate_approval;
mod certificate_signing;
mod certificate_subject_restriction;
mod compiled_expressions;
mod config;
mod default_class;
mod default_ingress_class;
mod default_storage_class;
mod default_toleration_seconds;
mod limit_ranger;
pub(crate) mod namespace_lifecycle;
mod plugin;
mod pod_resources;
mod pod_security;
mod policy;
mod priority;
mod reinvocation;
mod request;
mod request_authorizer;
mod request_matching;
mod resource_quota;
mod role_limits;
mod runtime_class;
mod service_account;
mod storage_object_in_use_protection;
mod taint_nodes_by_condition;
mod webhook;

use homeostat_api::status::Status;
use serde_json::Value;

use crate::backend::CommitStep;

use compiled_expressions::ExpressionCache;
pub use config::{AdmissionConfig, PluginNameError};
use plugin::{Mutate, Plugin, Validate};
use pod_security::PodSecurityConfig;
pub(crate) use request::{AdmissionRequest, AdmissionWarnings, Operation, ReinvocationState, RequestOptions};
pub(crate) use resource_quota::{limit_quotas, recalculate as recalculate_quotas};
pub(crate) use role_limits::limit_roles;

/// All plugins, in kube-apiserver's order.
static PLUGINS: [&Plugin; 19] = [
    &namespace_lifecycle::PLUGIN,
    &limit_ranger::PLUGIN,
    &service_account::PLUGIN,
    &taint_nodes_by_condition::PLUGIN,
    &pod_security::PLUGIN,
    &priority::PLUGIN,
    &default_toleration_seconds::PLUGIN,
    &default_storage_class::PLUGIN,
    &storage_object_in_use_protection::PLUGIN,
    &runtime_class::PLUGIN,
    &certificate_approval::PLUGIN,
    &certificate_signing::PLUGIN,
    &certificate_subject_restriction::PLUGIN,
    &default_ingress_class::PLUGIN,
    &policy::MUTATING,
    &webhook::MUTATING,
    &policy::VALIDATING,
    &webhook::VALIDATING,
    &resource_quota::PLUGIN,
];

/// The plugins of a server.
pub(crate) struct Admission {
    /// Which plugins are enabled: one bit for each of [`PLUGINS`].
    enabled: u32,
    /// Which plugins do nothing unless webhooks or policies are configured.
    configured: u32,
    plugins: AdmissionConfig,
    expressions: ExpressionCache,
}

impl Admission {
    /// Creates the admission chain for a server.
    pub(crate) fn new(plugins: AdmissionConfig) -> Self {
        let enabled = mask_of(|plugin| plugins.is_enabled(plugin.name));
        let configured = mask_of(|plugin| plugin.needs_configuration);
        Self { enabled, configured, plugins, expressions: ExpressionCache::default() }
    }

    /// Returns the same plugins, for a server on a copy of the store.
    pub(crate) fn forked(&self) -> Self {
        Self::new(self.plugins.clone())
    }

    /// Returns the compiled expressions of webhooks and policies.
    fn expressions(&self) -> &ExpressionCache {
        &self.expressions
    }

    /// Returns the configuration of PodSecurity.
    fn pod_security(&self) -> &PodSecurityConfig {
        &self.plugins.pod_security
    }

    /// Returns whether a plugin is enabled.
    pub(crate) fn is_enabled(&self, name: &str) -> bool {
        self.plugins.is_enabled(name)
    }

    /// Lets every mutating plugin change or refuse the object, which is null for a deletion.
    pub(crate) async fn mutate(
        &self,
        request: &AdmissionRequest<'_>,
        object: &mut Value,
    ) -> Result<(), Status> {
        self.mutate_once(request, object).await?;
        let is_again = request.reinvocation().begin_second_round();
        if is_again { self.mutate_once(request, object).await } else { Ok(()) }
    }

    async fn mutate_once(&self, request: &AdmissionRequest<'_>, object: &mut Value) -> Result<(), Status> {
        for plugin in self.concerned(request) {
            match plugin.mutate {
                Mutate::Never => {}
                Mutate::Fill(fill) => fill(request, object),
                Mutate::Now(mutate) => mutate(request, object)?,
                Mutate::Waiting(mutate) => mutate(request, object).await?,
            }
        }
        Ok(())
    }

    /// Lets every validating plugin refuse the object, which is null for a deletion.
    pub(crate) async fn validate(
        &self,
        request: &AdmissionRequest<'_>,
        object: &Value,
    ) -> Result<(), Status> {
        for plugin in self.concerned(request) {
            match plugin.validate {
                Validate::Never => {}
                Validate::Now(validate) => validate(request, object)?,
                Validate::Waiting(validate) => validate(request, object).await?,
            }
        }
        Ok(())
    }

    /// Returns the steps that charge a write to the quotas of its namespace. They are committed together with the
    /// write. This is the last of the validating plugins.
    pub(crate) async fn charge_quotas(
        &self,
        request: &AdmissionRequest<'_>,
        object: &Value,
    ) -> Result<Vec<CommitStep>, Status> {
        if self.is_enabled(resource_quota::NAME) {
            resource_quota::charge(request, object).await
        } else {
            Ok(Vec::new())
        }
    }

    /// Returns the enabled plugins that are interested in the resource and have something to do.
    fn concerned(&self, request: &AdmissionRequest<'_>) -> impl Iterator<Item = &'static Plugin> + use<> {
        let resource = request.resource;
        let interested =
            resource.interested_plugins.get_or_init(|| mask_of(|plugin| (plugin.is_interested)(resource)));
        let mut left = interested & self.enabled;
        if left & self.configured != 0 && !request.has_configurations() {
            left &= !self.configured;
        }
        std::iter::from_fn(move || {
            let at = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            PLUGINS.get(at).copied()
        })
    }
}

/// Returns a mask with one bit for each plugin that the predicate accepts.
fn mask_of(is_meant: impl Fn(&Plugin) -> bool) -> u32 {
    let bits = PLUGINS.iter().enumerate().filter(|(_, plugin)| is_meant(plugin));
    bits.fold(0, |mask, (at, _)| mask | 1 << at)
}
