//! What the command line of an operator says. Two words are enough: `manifests` prints what a cluster needs to run
//! it, `--kubeconfig FILE` says which cluster. `--serve ADDRESS` opens the admin pages.

use std::net::SocketAddr;

use crate::error::Error;

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Launch {
    /// Run against this kubeconfig, or where the environment says; serve the admin pages here.
    Run { kubeconfig: Option<String>, serve: Option<SocketAddr> },
    /// Print what it understands.
    Help,
    /// Print CRDs, rights and a Deployment of this image in this namespace.
    Manifests { image: Option<String>, namespace: Option<String> },
}

/// Reads the arguments after the program's name.
pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Launch, Error> {
    let mut arguments = arguments.into_iter();
    let mut launch = Launch::Run { kubeconfig: None, serve: None };
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
            ("manifests", _) => launch = Launch::Manifests { image: None, namespace: None },
            ("--kubeconfig", Launch::Run { kubeconfig, .. }) => *kubeconfig = Some(value()?),
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
  --serve ADDRESS        serve /metrics, /healthz, /readyz and /debug/why there, such as 127.0.0.1:8080

Options of manifests:
  --image IMAGE          the image of its Deployment ({operator}:latest unless told)
  --namespace NAMESPACE  where its Deployment and account live (default unless told)

  -h, --help             this text
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
        let run = |kubeconfig: Option<&str>, serve: Option<&str>| {
            let serve = serve.map(|address| address.parse().unwrap());
            Some(Launch::Run { kubeconfig: kubeconfig.map(str::to_owned), serve })
        };
        check(&[], run(None, None));
        check(&["--kubeconfig", "k"], run(Some("k"), None));
        check(&["--kubeconfig=k", "--serve", "[::1]:80"], run(Some("k"), Some("[::1]:80")));
        check(&["--serve", "here"], None);
        let manifests = Launch::Manifests { image: Some("i:1".into()), namespace: Some("n".into()) };
        check(&["manifests", "--image", "i:1", "--namespace=n"], Some(manifests));
        check(&["--kubeconfig"], None);
        check(&["--image", "i"], None);
        check(&["fly"], None);
        check(&["--help"], Some(Launch::Help));
        check(&["manifests", "-h"], Some(Launch::Help));
        let said = parse(["--fly=1".to_owned()]).unwrap_err();
        assert_eq!(format!("{said:?}"), "--fly is not understood; try --help", "also when a main returns it");
        assert!(help("web.demo.dev").contains("manifests [OPTIONS]"));
    }
}
