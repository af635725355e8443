//! An audit policy (`audit.k8s.io/v1`): the first rule that matches a request decides how much of it is logged.
//!
//! A file that kube-apiserver would reject is also rejected here, with the line of the mistake.

use serde::Deserialize;
use serde_saphyr::Spanned;

/// How much of a request is logged.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AuditLevel {
    /// Nothing.
    #[default]
    None,
    /// Who did what and when, without bodies.
    Metadata,
    /// Also the body of the request.
    Request,
    /// Also the body of the response.
    RequestResponse,
}

impl AuditLevel {
    /// Returns its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

/// A stage in the life of a request.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub(crate) enum AuditStage {
    RequestReceived,
    ResponseStarted,
    ResponseComplete,
    Panic,
}

impl AuditStage {
    /// Returns its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }
}

/// An audit policy.
#[derive(Clone, Debug)]
pub struct AuditPolicy {
    omit_stages: Vec<AuditStage>,
    omit_managed_fields: bool,
    rules: Vec<PolicyRule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PolicyFile {
    api_version: Spanned<String>,
    kind: Spanned<String>,
    #[serde(default)]
    #[expect(dead_code, reason = "a policy may have a name, which nobody uses")]
    metadata: serde_json::Value,
    #[serde(default)]
    omit_stages: Vec<AuditStage>,
    #[serde(default)]
    omit_managed_fields: bool,
    #[serde(default)]
    rules: Vec<Spanned<PolicyRule>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PolicyRule {
    level: AuditLevel,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    user_groups: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    resources: Vec<GroupResources>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default, rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    #[serde(default)]
    omit_stages: Vec<AuditStage>,
    omit_managed_fields: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GroupResources {
    #[serde(default)]
    group: String,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
}

/// The properties of a request that rules match on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AuditedRequest<'a> {
    pub(crate) user: &'a str,
    pub(crate) groups: &'a [String],
    pub(crate) verb: &'a str,
    /// `None` for paths that are not resources.
    pub(crate) resource: Option<AuditedResource<'a>>,
    pub(crate) path: &'a str,
}

/// The resource of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AuditedResource<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

/// The decision of a policy about a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuditDecision {
    pub(crate) level: AuditLevel,
    pub(crate) omit_stages: Vec<AuditStage>,
    pub(crate) omit_managed_fields: bool,
}

impl AuditPolicy {
    /// Parses a policy file, in YAML or JSON.
    ///
    /// # Errors
    /// Fails if the file is invalid. The message names the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: PolicyFile =
            serde_saphyr::from_str(text).map_err(|error| first_line(&error.to_string()))?;
        let at = |line: u64, why: &str| format!("line {line}: {why}");
        if file.api_version.value != "audit.k8s.io/v1" {
            let why = format!("apiVersion must be audit.k8s.io/v1, not {:?}", file.api_version.value);
            return Err(at(line_of(&file.api_version), &why));
        }
        if file.kind.value != "Policy" {
            let why = format!("kind must be Policy, not {:?}", file.kind.value);
            return Err(at(line_of(&file.kind), &why));
        }
        if file.rules.is_empty() {
            return Err("the policy has no rules; add one, such as `- level: Metadata`".to_owned());
        }
        for (number, rule) in file.rules.iter().enumerate() {
            check_rule(&rule.value).map_err(|why| at(line_of(rule), &format!("rules[{number}].{why}")))?;
        }
        Ok(Self {
            omit_stages: file.omit_stages,
            omit_managed_fields: file.omit_managed_fields,
            rules: file.rules.into_iter().map(|rule| rule.value).collect(),
        })
    }

    /// Decides how much of a request to log.
    pub(crate) fn decide(&self, request: &AuditedRequest<'_>) -> AuditDecision {
        let Some(rule) = self.rules.iter().find(|rule| rule.matches(request)) else {
            return AuditDecision {
                level: AuditLevel::None,
                omit_stages: self.omit_stages.clone(),
                omit_managed_fields: self.omit_managed_fields,
            };
        };
        AuditDecision {
            level: rule.level,
            omit_stages: [&*self.omit_stages, &*rule.omit_stages].concat(),
            omit_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields),
        }
    }
}

fn line_of<T>(spanned: &Spanned<T>) -> u64 {
    spanned.referenced.line()
}

/// Returns a parser's message without the excerpt of the source.
fn first_line(text: &str) -> String {
    text.lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default()
        .trim_start_matches("error: ")
        .to_owned()
}

fn check_rule(rule: &PolicyRule) -> Result<(), String> {
    for (at, url) in rule.non_resource_urls.iter().enumerate() {
        if url == "*" {
            continue;
        }
        let invalid = |why: &str| Err(format!("nonResourceURLs[{at}]: Invalid value: {url:?}: {why}"));
        if !url.starts_with('/') {
            return invalid("non-resource URL rules must begin with a '/' character");
        }
        if url.char_indices().any(|(at, letter)| letter == '*' && at + 1 < url.len()) {
            return invalid("non-resource URL wildcards '*' must be the final character of the rule");
        }
    }
    for resources in &rule.resources {
        let group = &resources.group;
        let is_plain =
            |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-.".contains(letter);
        if !group.is_empty() && group != "*" && !group.chars().all(is_plain) {
            let why = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'";
            return Err(format!("resources.group: Invalid value: {group:?}: {why}"));
        }
        if !resources.resource_names.is_empty() && resources.resources.is_empty() {
            let why = "using resourceNames requires at least one resource";
            return Err(format!(
                "resources.resourceNames: Invalid value: {:?}: {why}",
                resources.resource_names
            ));
        }
    }
    let has_resources = !rule.resources.is_empty() || !rule.namespaces.is_empty();
    if has_resources && !rule.non_resource_urls.is_empty() {
        let why = "rules cannot apply to both regular resources and non-resource URLs";
        return Err(format!("nonResourceURLs: Invalid value: {:?}: {why}", rule.non_resource_urls));
    }
    Ok(())
}

impl PolicyRule {
    fn matches(&self, request: &AuditedRequest<'_>) -> bool {
        let names = |list: &[String], name: &str| list.iter().any(|one| one == name);
        if !self.users.is_empty() && !names(&self.users, request.user)
            || !self.user_groups.is_empty()
                && !request.groups.iter().any(|group| names(&self.user_groups, group))
            || !self.verbs.is_empty() && !names(&self.verbs, request.verb)
        {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            let Some(resource) = &request.resource else { return false };
            let is_here = self.namespaces.is_empty() || names(&self.namespaces, resource.namespace);
            return is_here
                && (self.resources.is_empty() || self.resources.iter().any(|one| one.matches(resource)));
        }
        if !self.non_resource_urls.is_empty() {
            let is_meant = |spec: &String| {
                spec == request.path
                    || spec.ends_with('*') && request.path.starts_with(spec.trim_end_matches('*'))
            };
            return request.resource.is_none() && self.non_resource_urls.iter().any(is_meant);
        }
        true
    }
}

impl GroupResources {
    fn matches(&self, asked: &AuditedResource<'_>) -> bool {
        if self.group != "*" && self.group != asked.group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        if !self.resource_names.is_empty() && !self.resource_names.iter().any(|name| name == asked.name) {
            return false;
        }
        self.resources.iter().any(|one| match one.split_once('/') {
            None => one == "*" || asked.subresource.is_empty() && one == asked.resource,
            Some(("*", subresource)) => !asked.subresource.is_empty() && subresource == asked.subresource,
            Some((resource, "*")) => resource == asked.resource,
            Some((resource, subresource)) => (resource, subresource) == (asked.resource, asked.subresource),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";

    #[test]
    fn bad_files_are_refused_with_the_line() {
        let check = |rest: &str, line: &str, why: &str| {
            let refused = AuditPolicy::parse(&format!("{HEAD}{rest}")).expect_err(rest);
            assert!(refused.contains(line) && refused.contains(why), "{refused}");
        };
        check("rules:\n- level: Metadata\n- level: All\n", "line 5", "All");
        check("rules:\n- verbs: [get]\n", "line 4", "level");
        check("rules:\n- level: None\n  verb: [get]\n", "line 5", "verb");
        check("rules:\n- level: None\n  omitStages: [Begun]\n", "line 5", "Begun");
        check(
            "rules:\n- level: None\n- level: None\n  nonResourceURLs: [healthz]\n",
            "line 5",
            "must begin with a '/'",
        );
        check(
            "rules:\n- level: None\n  nonResourceURLs: [/a]\n  namespaces: [b]\n",
            "line 4",
            "rules cannot apply to both",
        );
        check(
            "rules:\n- level: None\n  resources: [{group: apps/v1}]\n",
            "line 4",
            "rules[0].resources.group: Invalid",
        );
        check(
            "rules:\n- level: None\n  resources: [{resourceNames: [a]}]\n",
            "line 4",
            "requires at least one resource",
        );
        check("rules: [\n", "line", "");
        check("", "the policy has no rules", "");
        let other =
            AuditPolicy::parse("apiVersion: v1\nkind: Policy\nrules: []\n").expect_err("another version");
        assert!(other.starts_with("line 1: apiVersion must be audit.k8s.io/v1"), "{other}");
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rules = "omitStages: [RequestReceived]\nomitManagedFields: true\nrules:\n\
            - {level: None, users: [quiet]}\n\
            - {level: None, userGroups: [quiets], verbs: [get]}\n\
            - {level: Request, resources: [{group: '', resources: [secrets, pods/log, '*/status', 'nodes/*'], resourceNames: [a]}]}\n\
            - {level: RequestResponse, namespaces: [n], omitManagedFields: false, omitStages: [Panic]}\n\
            - {level: None, nonResourceURLs: ['/healthz*']}\n\
            - {level: Metadata, resources: [{group: '*'}]}\n";
        let policy = AuditPolicy::parse(&format!("{HEAD}{rules}")).unwrap();
        let level = |user: &str, groups: &[&str], verb: &str, path: &str| {
            let groups = groups.iter().map(|&group| group.to_owned()).collect::<Vec<_>>();
            let parts = path.split(':').collect::<Vec<_>>();
            let resource = (parts.len() > 1).then(|| AuditedResource {
                group: "",
                version: "v1",
                namespace: parts[0],
                resource: parts[1],
                name: parts[2],
                subresource: parts[3],
            });
            let request = AuditedRequest { user, groups: &groups, verb, resource, path };
            policy.decide(&request)
        };
        let check = |path: &str, expected: AuditLevel| {
            assert_eq!(level("u", &["g"], "get", path).level, expected, "{path}");
        };
        assert_eq!(level("quiet", &[], "get", "n:pods:a:").level, AuditLevel::None);
        assert_eq!(level("u", &["quiets"], "get", "n:pods:a:").level, AuditLevel::None);
        assert_eq!(level("u", &["quiets"], "list", "n:pods:a:").level, AuditLevel::RequestResponse);
        check("o:secrets:a:", AuditLevel::Request);
        check("o:secrets:b:", AuditLevel::Metadata);
        check("o:secrets:a:other", AuditLevel::Metadata);
        check("o:pods:a:log", AuditLevel::Request);
        check("o:pods:a:", AuditLevel::Metadata);
        check("o:pods:a:status", AuditLevel::Request);
        check(":nodes:a:", AuditLevel::Request);
        check(":nodes:a:proxy", AuditLevel::Request);
        check("/healthz/etcd", AuditLevel::None);
        check("/version", AuditLevel::None);
        let decision = level("u", &[], "get", "n:pods:a:");
        assert_eq!(decision.omit_stages, [AuditStage::RequestReceived, AuditStage::Panic]);
        assert!(!decision.omit_managed_fields && level("u", &[], "get", "o:pods:a:").omit_managed_fields);
    }
}
