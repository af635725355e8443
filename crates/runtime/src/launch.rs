//! What the command line of an operator says. Two words are enough: `manifests` prints what a cluster needs to run
//! it, `--kubeconfig FILE` says which cluster. `--serve ADDRESS` opens the admin pages.

use std::net::SocketAddr;

use crate::error::Error;

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Launch {
    /// Run in this cluster; serve the admin pages here.
    Run { cluster: Cluster, serve: Option<SocketAddr> },
    /// Print what it understands.
    Help,
    /// Print what it is.
    Version,
    /// Print CRDs, rights and a Deployment of this image in this namespace.
    Manifests { image: Option<String>, namespace: Option<String> },
}

/// Which cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cluster {
    /// The one the environment names, if any.
    Any,
    /// That of this kubeconfig.
    Of(String),
    /// That of the Pod it runs in, and no other.
    Own,
}

/// Reads the arguments after the program's name.
pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Launch, Error> {
    let mut arguments = arguments.into_iter();
    let mut launch = Launch::Run { cluster: Cluster::Any, serve: None };
    while let Some(argument) = arguments.next() {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (argument, None),
        };
        let mut value = || {
            value.clone().or_else(|| arguments.next()).ok_or_else(|| usage(&format!("{name} needs a value")))
        };
        match (name.as_str(), &mut launch) {
            ("--help" | "-h" | "help", _) => return Ok(Launch::Help),
            ("--version" | "-V", _) => return Ok(Launch::Version),
            ("manifests", _) => launch = Launch::Manifests { image: None, namespace: None },
            ("--kubeconfig", Launch::Run { cluster, .. }) => *cluster = Cluster::Of(value()?),
            ("--in-cluster", Launch::Run { cluster, .. }) => *cluster = Cluster::Own,
            ("--serve", Launch::Run { serve, .. }) => *serve = Some(address(&value()?)?),
            ("--image", Launch::Manifests { image, .. }) => *image = Some(value()?),
            ("--namespace", Launch::Manifests { namespace, .. }) => *namespace = Some(value()?),
            (unknown, _) => return Err(usage(&format!("{unknown} is not understood"))),
        }
    }
    Ok(launch)
}

fn address(text: &str) -> Result<SocketAddr, Error> {
    text.parse().map_err(|_| usage(&format!("{text} is not an address with a port, such as 127.0.0.1:8080")))
}

fn usage(problem: &str) -> Error {
    Error::Invalid(format!("{problem}; try --help"))
}

/// The help screen of the operator of this name.
pub(crate) fn help(operator: &str) -> String {
    let program = std::env::args().next().unwrap_or_default();
    let program = program.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("operator");
    format!(
        "The operator {operator}: keeps actual state equal to desired state.

Usage: {program} [OPTIONS]            run until SIGTERM or ctrl-c
       {program} manifests [OPTIONS]  print what a cluster needs to run it, for kubectl apply -f -

Options of a run:
  --kubeconfig FILE      which cluster (else KUBECONFIG, else the account of the Pod it runs in)
  --in-cluster           the cluster of the Pod it runs in, or none: manifests start it so
  --serve ADDRESS        serve /metrics, /healthz, /readyz and /debug/why there, such as 127.0.0.1:8080

Options of manifests:
  --image IMAGE          the image of its Deployment ({operator}:latest unless told)
  --namespace NAMESPACE  where its Deployment and account live (default unless told)

  -h, --help             this text
  -V, --version          its name, and the framework's version
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "rows read better with literals")]
    fn check(arguments: &[&str], expected: Option<Launch>) {
        let parsed = parse(arguments.iter().map(ToString::to_string));
        assert_eq!(parsed.ok(), expected);
    }

    #[test]
    fn arguments() {
        let run = |cluster: Cluster, serve: Option<&str>| {
            let serve = serve.map(|address| address.parse().unwrap());
            Some(Launch::Run { cluster, serve })
        };
        let of_k = || Cluster::Of("k".into());
        check(&[], run(Cluster::Any, None));
        check(&["--kubeconfig", "k"], run(of_k(), None));
        check(&["--kubeconfig=k", "--serve", "[::1]:80"], run(of_k(), Some("[::1]:80")));
        check(&["--in-cluster"], run(Cluster::Own, None));
        check(&["--serve", "here"], None);
        let manifests = Launch::Manifests { image: Some("i:1".into()), namespace: Some("n".into()) };
        check(&["manifests", "--image", "i:1", "--namespace=n"], Some(manifests));
        check(&["--kubeconfig"], None);
        check(&["--image", "i"], None);
        check(&["fly"], None);
        check(&["--help"], Some(Launch::Help));
        check(&["manifests", "-h"], Some(Launch::Help));
        check(&["--version"], Some(Launch::Version));
        let said = parse(["--fly=1".to_owned()]).unwrap_err();
        assert_eq!(format!("{said:?}"), "--fly is not understood; try --help", "also when a main returns it");
        assert!(help("web.demo.dev").contains("manifests [OPTIONS]"));
    }
}
