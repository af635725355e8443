//! Parses the command line of an operator. `manifests` prints the manifests that a cluster needs to run it,
//! `--kubeconfig FILE` chooses the cluster, `--serve ADDRESS` serves the admin pages.
//!
//! A program with its own command line takes these arguments after `--`.

use std::net::SocketAddr;

use crate::error::Error;
use crate::plan_command::PlanOptions;
use crate::why::WhyOptions;

/// The longest name of a namespace, which is a DNS label.
const NAMESPACE_LETTERS_MAX: usize = 63;

/// Where an operator takes its arguments from.
#[derive(Debug)]
pub(crate) enum Arguments {
    /// All arguments of the process are the operator's.
    OfProcess,
    /// The operator's arguments begin after `--`.
    AfterDashes,
    /// The program has parsed its command line and passes these.
    Given(Vec<String>),
}

/// The arguments of a program, without its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandLine {
    /// The program's own arguments, including the `--` that ends them.
    pub(crate) own: Vec<String>,
    /// The operator's arguments.
    pub(crate) rest: Vec<String>,
}

impl CommandLine {
    /// Returns the command line read from the configured source.
    pub(crate) fn read(arguments: Arguments) -> Self {
        match arguments {
            Arguments::OfProcess => Self { own: Vec::new(), rest: std::env::args().skip(1).collect() },
            Arguments::AfterDashes => Self::split(std::env::args().skip(1).collect()),
            Arguments::Given(rest) => Self { own: Vec::new(), rest },
        }
    }

    fn split(mut all: Vec<String>) -> Self {
        let end = all.iter().position(|argument| argument == "--").unwrap_or(all.len());
        let rest = all.split_off(end).into_iter().skip(1).collect();
        all.push("--".to_owned());
        Self { own: all, rest }
    }

    /// Parses the operator's part, or fails with an error that says what is wrong and how to get help.
    pub(crate) fn parse(&self) -> Result<LaunchCommand, Error> {
        let hint = if self.own.is_empty() { "--help" } else { "-- --help" };
        parse(&self.rest).map_err(|problem| Error::Usage(format!("{problem}; try {hint}")))
    }
}

/// The command to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LaunchCommand {
    /// Run in this cluster, and serve the admin pages at this address.
    Run { cluster: ClusterChoice, serve: Option<SocketAddr> },
    /// Print the help.
    Help,
    /// Print name and version.
    Version,
    /// Explain an object in this cluster.
    Why { cluster: ClusterChoice, options: WhyOptions },
    /// Print what a change would do to this cluster.
    Plan { cluster: ClusterChoice, options: PlanOptions },
    /// Print CRDs, RBAC objects and a Deployment with this image in this namespace.
    Manifests { image: Option<String>, namespace: Option<String> },
}

/// The cluster to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClusterChoice {
    /// The one that the environment names, if any.
    Any,
    /// The one in this kubeconfig.
    Of(String),
    /// The one in which its Pod runs, and no other.
    Own,
}

/// Parses the operator's arguments, or returns what is wrong with them.
fn parse(arguments: &[String]) -> Result<LaunchCommand, String> {
    let mut arguments = arguments.iter();
    let mut launch = LaunchCommand::Run { cluster: ClusterChoice::Any, serve: None };
    while let Some(argument) = arguments.next() {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (argument.clone(), None),
        };
        let mut value = || {
            let value = value.clone().or_else(|| arguments.next().cloned());
            value.filter(|value| !value.trim().is_empty()).ok_or_else(|| format!("{name} needs a value"))
        };
        match (name.as_str(), &mut launch) {
            ("--help" | "-h" | "help", _) => return Ok(LaunchCommand::Help),
            ("--version" | "-V", _) => return Ok(LaunchCommand::Version),
            ("manifests", _) => launch = LaunchCommand::Manifests { image: None, namespace: None },
            ("why", LaunchCommand::Run { cluster, .. }) => {
                launch = LaunchCommand::Why { cluster: cluster.clone(), options: WhyOptions::default() };
            }
            ("plan", LaunchCommand::Run { cluster, .. }) => {
                launch = LaunchCommand::Plan { cluster: cluster.clone(), options: PlanOptions::default() };
            }
            (
                "--kubeconfig",
                LaunchCommand::Run { cluster, .. }
                | LaunchCommand::Why { cluster, .. }
                | LaunchCommand::Plan { cluster, .. },
            ) => *cluster = ClusterChoice::Of(value()?),
            ("--in-cluster", LaunchCommand::Run { cluster, .. }) => *cluster = ClusterChoice::Own,
            ("--serve", LaunchCommand::Run { serve, .. }) => *serve = Some(parse_address(&value()?)?),
            ("--image", LaunchCommand::Manifests { image, .. }) => *image = Some(value()?),
            ("--namespace", LaunchCommand::Manifests { namespace, .. }) => {
                *namespace = Some(check_namespace_name(value()?)?);
            }
            ("--namespace" | "-n", LaunchCommand::Why { options, .. }) => options.namespace = Some(value()?),
            ("--json", LaunchCommand::Why { options, .. }) => options.json = true,
            ("--watch" | "-w", LaunchCommand::Why { options, .. }) => options.watch = true,
            (name, LaunchCommand::Plan { options, .. }) => {
                if !options.set(name, &mut value)? {
                    return Err(format!("unknown argument {name}"));
                }
            }
            (word, LaunchCommand::Why { options, .. }) if !word.starts_with('-') => options.set_word(word)?,
            (unknown, _) => return Err(format!("unknown argument {unknown}")),
        }
    }
    match &launch {
        LaunchCommand::Why { options, .. } => options.check()?,
        LaunchCommand::Plan { options, .. } => options.check()?,
        _ => {}
    }
    Ok(launch)
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("{text} is not an address with a port, such as 127.0.0.1:8080"))
}

/// Checks that Kubernetes accepts a name for a namespace.
fn check_namespace_name(name: String) -> Result<String, String> {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_inner = |byte: u8| is_letter(byte) || byte == b'-';
    let ends_well = |end: Option<&u8>| end.copied().is_some_and(is_letter);
    let bytes = name.as_bytes();
    let is_good = bytes.len() <= NAMESPACE_LETTERS_MAX
        && bytes.iter().copied().all(is_inner)
        && ends_well(bytes.first())
        && ends_well(bytes.last());
    let rule =
        "use lower-case letters, digits and inner dashes, at most 63 characters, for example my-system";
    if is_good { Ok(name) } else { Err(format!("{name} is not a valid namespace: {rule}")) }
}

/// Returns the help screen for the operator with this name, in a program that needs these arguments itself.
pub(crate) fn help(operator: &str, own: &[String]) -> String {
    let program = std::env::args().next().unwrap_or_default();
    let program = program.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("operator");
    let words: Vec<&str> = [program].into_iter().chain(own.iter().map(String::as_str)).collect();
    let program = words.join(" ");
    format!(
        "The operator {operator}: keeps actual state equal to desired state.

Usage: {program} [OPTIONS]            run until SIGTERM or ctrl-c
       {program} why KIND NAME        explain why an object is as it is (also KIND/NAME)
       {program} plan -f FILE         print what a change would do, and change nothing
       {program} manifests [OPTIONS]  print what a cluster needs to run it, for kubectl apply -f -

Options of a run:
  --kubeconfig FILE      which cluster (default: KUBECONFIG, then the Pod's service account)
  --in-cluster           only the cluster of the Pod it runs in (set by the manifests)
  --serve ADDRESS        serve /metrics, /healthz, /readyz and the journal for `why` there, such as 127.0.0.1:8080; also the
                         web console, if the program is built with the feature `console`

Options of why:
  --kubeconfig FILE      which cluster
  -n, --namespace NAME   the namespace of the object (default: that of the kubeconfig)
  --json                 print JSON
  -w, --watch            go on, and print again whenever something changed

Options of plan:
  -f, --filename FILE    objects to apply, in YAML or JSON (- for stdin; may be repeated)
  --delete               delete these objects instead
  --kubeconfig FILE      which cluster
  -n, --namespace NAME   the namespace of objects that name none (default: that of the kubeconfig)
  --max-deletes NUMBER   refuse a change that deletes or replaces more objects than this
  --json                 print JSON

Options of manifests:
  --image IMAGE          the image of its Deployment (default: {operator}:latest)
  --namespace NAMESPACE  where its Deployment and account live (default: default)

  -h, --help             print this help
  -V, --version          print its name and the framework's version
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "rows read better with literals")]
    fn check(arguments: &[&str], expected: Option<LaunchCommand>) {
        assert_eq!(parse(&words(arguments)).ok(), expected);
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn namespaces_that_kubernetes_refuses_are_refused() {
        let refusal = |name: &str| parse(&words(&["manifests", "--namespace", name])).err();
        let long = "n".repeat(64);
        for name in ["Bad_NS", "a.b", "-a", "a-", "a b", "ä", "a/b", &long] {
            let said = refusal(name).unwrap_or_else(|| panic!("{name} is accepted"));
            assert!(said.starts_with(&format!("{name} is not a valid namespace: use ")), "{said}");
        }
        for name in ["", " "] {
            assert_eq!(refusal(name).as_deref(), Some("--namespace needs a value"));
        }
        for name in ["a", "1-2", "my-system", &long[1..]] {
            assert_eq!(refusal(name), None, "{name}");
        }
    }

    #[test]
    fn a_program_may_have_arguments_of_its_own() {
        let check = |all: &[&str], own: &[&str], rest: &[&str]| {
            let expected = CommandLine { own: words(own), rest: words(rest) };
            assert_eq!(CommandLine::split(words(all)), expected);
        };
        check(&["operator", "--poll", "5"], &["operator", "--poll", "5", "--"], &[]);
        check(&["operator", "--", "manifests"], &["operator", "--"], &["manifests"]);
        check(&["--", "--image", "--"], &["--"], &["--image", "--"]);
        let given = CommandLine::read(Arguments::Given(words(&["manifests"])));
        assert_eq!(given, CommandLine { own: vec![], rest: words(&["manifests"]) });
    }

    #[test]
    fn arguments() {
        let run = |cluster: ClusterChoice, serve: Option<&str>| {
            let serve = serve.map(|address| address.parse().unwrap());
            Some(LaunchCommand::Run { cluster, serve })
        };
        let of_k = || ClusterChoice::Of("k".into());
        check(&[], run(ClusterChoice::Any, None));
        check(&["--kubeconfig", "k"], run(of_k(), None));
        check(&["--kubeconfig=k", "--serve", "[::1]:80"], run(of_k(), Some("[::1]:80")));
        check(&["--in-cluster"], run(ClusterChoice::Own, None));
        check(&["--serve", "here"], None);
        let manifests = LaunchCommand::Manifests { image: Some("i:1".into()), namespace: Some("n".into()) };
        check(&["manifests", "--image", "i:1", "--namespace=n"], Some(manifests));
        let why = |cluster: ClusterChoice| {
            let (kind, name, namespace) = ("deploy".into(), "web".into(), Some("a".into()));
            Some(LaunchCommand::Why {
                cluster,
                options: WhyOptions { kind, name, namespace, json: true, watch: false },
            })
        };
        check(&["why", "deploy", "web", "-n", "a", "--json"], why(ClusterChoice::Any));
        check(&["why", "deploy/web", "--namespace=a", "--json", "--kubeconfig", "k"], why(of_k()));
        check(&["why", "deploy"], None);
        let plan = LaunchCommand::Plan {
            cluster: of_k(),
            options: PlanOptions {
                files: words(&["a", "-"]),
                is_delete: true,
                namespace: Some("n".into()),
                deletes_max: Some(3),
                json: true,
            },
        };
        let words_of_plan =
            ["plan", "-f", "a", "--filename=-", "--delete", "-n", "n", "--max-deletes", "3", "--json"];
        check(&[&words_of_plan[..], &["--kubeconfig", "k"]].concat(), Some(plan));
        check(&["plan"], None);
        check(&["plan", "-f", "a", "--max-deletes", "many"], None);
        check(&["plan", "-f", "a", "b"], None);
        check(&["why", "deploy", "web", "more"], None);
        check(&["why", "--serve", "[::1]:80"], None);
        check(&["--kubeconfig"], None);
        check(&["--image", "i"], None);
        check(&["fly"], None);
        check(&["--help"], Some(LaunchCommand::Help));
        check(&["manifests", "-h"], Some(LaunchCommand::Help));
        check(&["--version"], Some(LaunchCommand::Version));
        assert_eq!(parse(&words(&["--fly=1"])).unwrap_err(), "unknown argument --fly");
        assert!(help("web.demo.dev", &[]).contains("manifests [OPTIONS]"));
        assert!(help("web.demo.dev", &words(&["run", "--"])).contains(" run -- manifests [OPTIONS]"));
    }
}
