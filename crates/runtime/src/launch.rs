//! What the command line of an operator says. Two words are enough: `manifests` prints what a cluster needs to run
//! it, `--kubeconfig FILE` says which cluster.

use crate::error::Error;

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Launch {
    /// Run against this kubeconfig, or where the environment says.
    Run { kubeconfig: Option<String> },
    /// Print CRDs, rights and a Deployment of this image.
    Manifests { image: Option<String> },
}

/// Reads the arguments after the program's name.
pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Launch, Error> {
    let mut arguments = arguments.into_iter();
    let mut launch = Launch::Run { kubeconfig: None };
    while let Some(argument) = arguments.next() {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (argument, None),
        };
        let mut value = || {
            value.clone().or_else(|| arguments.next()).ok_or_else(|| usage(&format!("{name} needs a value")))
        };
        match (name.as_str(), &mut launch) {
            ("manifests", _) => launch = Launch::Manifests { image: None },
            ("--kubeconfig", Launch::Run { kubeconfig }) => *kubeconfig = Some(value()?),
            ("--image", Launch::Manifests { image }) => *image = Some(value()?),
            (unknown, _) => return Err(usage(&format!("{unknown} is not understood"))),
        }
    }
    Ok(launch)
}

fn usage(problem: &str) -> Error {
    Error::Invalid(format!("{problem}; usage: [--kubeconfig FILE] | manifests [--image IMAGE]"))
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
        check(&[], Some(Launch::Run { kubeconfig: None }));
        check(&["--kubeconfig", "k"], Some(Launch::Run { kubeconfig: Some("k".into()) }));
        check(&["--kubeconfig=k"], Some(Launch::Run { kubeconfig: Some("k".into()) }));
        check(&["manifests", "--image", "i:1"], Some(Launch::Manifests { image: Some("i:1".into()) }));
        check(&["--kubeconfig"], None);
        check(&["--image", "i"], None);
        check(&["fly"], None);
    }
}
