//! The operator: the cloud as a world, and its settings.

use clap::{Args, ValueEnum};
use homeostat::prelude::*;
use homeostat::world::{ApiSharing, Drift, LeakDeletionLimits, Outside, Ownership};

use crate::client::HttpClient;
use crate::shape::Shape;
use crate::shapes_world::{Cloud, ShapesApi};

/// The prefix of our shapes' names, if that is how we know them.
const PREFIX: &str = "k8s-";

/// How we know which shapes are ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// By the prefix `k8s-` of their names.
    Prefix,
    /// By their label `owner`.
    #[default]
    Tags,
    /// By an `OutsideRecord` for each in the cluster.
    Records,
}

/// Whether others use the cloud, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Share {
    /// Others use it: their shapes are left alone.
    #[default]
    Shared,
    /// No one else uses it: shapes that no object desires are removed.
    Exclusive,
}

/// The operator's settings.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// How we know which shapes are ours
    #[arg(long, value_enum, default_value_t)]
    pub ownership: Mode,
    /// Whether others use the cloud, too
    #[arg(long = "use", value_enum, default_value_t)]
    pub share: Share,
    /// Seconds between full passes
    #[arg(long, default_value_t = 60)]
    pub poll: u64,
    /// Seconds that the cloud may take to show a new shape
    #[arg(long, default_value_t = 30)]
    pub settle: u64,
    /// Seconds a shape must have been unwanted before it is removed
    #[arg(long, default_value_t = 600)]
    pub min_age: u64,
    /// Only report what others change or delete, instead of repairing it
    #[arg(long)]
    pub report_drift: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ownership: Mode::default(),
            share: Share::default(),
            poll: 60,
            settle: 30,
            min_age: 600,
            report_drift: false,
        }
    }
}

/// Returns the operator for the cloud at this address.
pub fn operator(url: &str, options: &Options) -> Operator {
    operator_of(HttpClient::new(url), options)
}

/// Returns the operator for the cloud behind this API.
pub fn operator_of(api: impl ShapesApi, options: &Options) -> Operator {
    let ownership = match options.ownership {
        Mode::Prefix => Ownership::Prefix(PREFIX.to_owned()),
        Mode::Tags => Ownership::Tags,
        Mode::Records => Ownership::Records,
    };
    let r#use = match options.share {
        Share::Shared => ApiSharing::Shared,
        Share::Exclusive => ApiSharing::Exclusive,
    };
    let shapes = Outside::new(Cloud(api))
        .ownership(ownership)
        .used(r#use)
        .drift(if options.report_drift { Drift::Report } else { Drift::Correct })
        .poll(Duration::from_secs(options.poll))
        .visible_within(Duration::from_secs(options.settle))
        .sweep(LeakDeletionLimits {
            min_age: Duration::from_secs(options.min_age),
            ..LeakDeletionLimits::default()
        });
    Operator::new("shapes.demo.dev").crd::<Shape>().control(shapes.control())
}
