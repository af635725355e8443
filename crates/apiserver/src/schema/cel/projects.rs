//! Rules of well-known projects, as their definitions state them: each must be taken, with a cost within the limit.
//!
//! The schemas are cut to what the rules read, with the bounds the projects give.

use serde_json::{Value, json};

use super::faults::faults;

fn taken(schema: &Value, rules: &[&str]) {
    for rule in rules {
        let optional = rule.contains("oldSelf.hasValue") || rule.contains("oldSelf.orValue");
        let mut entry = json!({"rule": rule, "message": "no"});
        if optional {
            entry["optionalOldSelf"] = true.into();
        }
        let mut spec = schema.clone();
        spec["x-kubernetes-validations"] = json!([entry]);
        let root = json!({"type": "object", "properties": {"spec": spec}});
        let definition = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": root}}]}});
        let found: Vec<_> = faults(&definition, None).iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{rule}\n{found:#?}");
    }
}

fn text(max: u64) -> Value {
    json!({"type": "string", "maxLength": max})
}

#[test]
fn gateway_api() {
    let listener = json!({"type": "object", "properties": {"name": text(253), "port": {"type": "integer"},
        "protocol": text(255), "hostname": text(253), "tls": {"type": "object", "properties": {"mode": text(20),
            "certificateRefs": {"type": "array", "maxItems": 64, "items": {"type": "object", "properties": {"name": text(253)}}},
            "options": {"type": "object", "maxProperties": 16, "additionalProperties": text(4096)}}}}});
    let gateway = json!({"type": "object", "properties": {"listeners": {"type": "array", "maxItems": 64, "items": listener},
        "addresses": {"type": "array", "maxItems": 16, "items": {"type": "object", "properties": {"type": text(253),
            "value": text(253)}}}}});
    taken(
        &gateway,
        &[
            "self.listeners.all(l, l.protocol in ['HTTP', 'TCP', 'UDP'] ? !has(l.tls) : true)",
            "self.listeners.all(l, (l.protocol == 'HTTPS' && has(l.tls)) ? (l.tls.mode == '' || l.tls.mode == 'Terminate') : true)",
            "self.listeners.all(l, l.protocol in ['TCP', 'UDP']  ? (!has(l.hostname) || l.hostname == '') : true)",
            "self.listeners.all(l1, self.listeners.exists_one(l2, l1.name == l2.name))",
            "self.listeners.all(l1, self.listeners.exists_one(l2, l1.port == l2.port && l1.protocol == l2.protocol && (has(l1.hostname) && has(l2.hostname) ? l1.hostname == l2.hostname : !has(l1.hostname) && !has(l2.hostname))))",
            "self.addresses.all(a1, a1.type == 'IPAddress' ? self.addresses.exists_one(a2, a2.type == a1.type && a2.value == a1.value) : true )",
            "self.listeners.all(l, has(l.tls) && l.tls.mode == 'Terminate' ? size(l.tls.certificateRefs) > 0 || size(l.tls.options) > 0 : true)",
        ],
    );
    let filter = json!({"type": "object", "properties": {"type": text(40), "requestRedirect": {"type": "object",
        "properties": {"path": {"type": "object", "properties": {"type": text(40), "replacePrefixMatch": text(1024)}}}},
        "urlRewrite": {"type": "object", "properties": {"path": {"type": "object", "properties": {"type": text(40), "replacePrefixMatch": text(1024)}}}},
        "requestMirror": {"type": "object", "properties": {"percent": {"type": "integer"}, "fraction": {"type": "object",
            "properties": {"numerator": {"type": "integer"}, "denominator": {"type": "integer"}}}}},
        "extensionRef": {"type": "object", "properties": {"name": text(253)}}}});
    taken(
        &filter,
        &[
            "!(has(self.requestMirror) && self.type != 'RequestMirror')",
            "!(!has(self.requestRedirect) && self.type == 'RequestRedirect')",
            "!(has(self.requestMirror) && has(self.requestMirror.percent) && has(self.requestMirror.fraction))",
        ],
    );
    let rule = json!({"type": "object", "properties": {"name": text(253), "filters": {"type": "array", "maxItems": 16, "items": filter},
        "matches": {"type": "array", "maxItems": 64, "items": {"type": "object", "properties": {"path": {"type": "object",
            "properties": {"type": text(40), "value": text(1024)}}}}},
        "timeouts": {"type": "object", "properties": {"request": {"type": "string", "pattern": "^([0-9]{1,5}(h|m|s|ms)){1,4}$", "maxLength": 24},
            "backendRequest": {"type": "string", "maxLength": 24}}},
        "backendRefs": {"type": "array", "maxItems": 16, "items": {"type": "object", "properties": {"name": text(253)}}}}});
    taken(
        &rule,
        &[
            "self.filters.filter(f, f.type == 'RequestHeaderModifier').size() <= 1",
            "!(self.filters.exists(f, f.type == 'RequestRedirect') && self.filters.exists(f, f.type == 'URLRewrite'))",
            "(has(self.backendRefs) && size(self.backendRefs) > 0) ? (!has(self.filters) || self.filters.all(f, !has(f.requestRedirect))): true",
            "(has(self.filters) && self.filters.exists_one(f, has(f.requestRedirect) && has(f.requestRedirect.path) && f.requestRedirect.path.type == 'ReplacePrefixMatch' && has(f.requestRedirect.path.replacePrefixMatch))) ? ((size(self.matches) != 1 || !has(self.matches[0].path) || self.matches[0].path.type != 'PathPrefix') ? false : true) : true",
            "!(has(self.timeouts.request) && has(self.timeouts.backendRequest) && duration(self.timeouts.request) != duration('0s') && duration(self.timeouts.backendRequest) > duration(self.timeouts.request))",
        ],
    );
    let route =
        json!({"type": "object", "properties": {"rules": {"type": "array", "maxItems": 16, "items": rule}}});
    taken(
        &route,
        &[
            "self.rules.all(l1, !has(l1.name) || self.rules.exists_one(l2, has(l2.name) && l1.name == l2.name))",
            "(self.rules.size() > 0 ? self.rules[0].matches.size() : 0) + (self.rules.size() > 1 ? self.rules[1].matches.size() : 0) <= 128",
        ],
    );
}

#[test]
fn gateway_api_values() {
    let path = json!({"type": "object", "properties": {"type": text(40), "value": text(1024)}});
    taken(
        &path,
        &[
            "(self.type in ['Exact','PathPrefix']) ? self.value.startsWith('/') : true",
            "(self.type in ['Exact','PathPrefix']) ? !self.value.contains('//') : true",
            "(self.type in ['Exact','PathPrefix']) ? !self.value.endsWith('/..') : true",
            r#"(self.type in ['Exact','PathPrefix']) ? self.value.matches(r"""^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})+$""") : true"#,
        ],
    );
    let address = json!({"type": "object", "properties": {"type": text(253), "value": text(253)}});
    taken(
        &address,
        &[
            r#"self.type == 'Hostname' ? self.value.matches(r"""^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"""): true"#,
        ],
    );
}

#[test]
fn cluster_api_and_providers() {
    let control_plane = json!({"type": "object", "properties": {"endpoint": {"type": "object", "properties": {"host": text(512),
        "port": {"type": "integer"}}}, "identityRef": {"type": "object", "properties": {"name": text(253), "kind": text(63)}},
        "topology": {"type": "object", "properties": {"class": text(63), "version": text(256), "variables": {"type": "array", "maxItems": 100,
            "items": {"type": "object", "properties": {"name": text(256), "value": {"x-kubernetes-preserve-unknown-fields": true}}}}}},
        "replicas": {"type": "integer"}, "paused": {"type": "boolean"}}});
    taken(
        &control_plane,
        &[
            "has(self.endpoint) || has(self.topology)",
            "!has(oldSelf.endpoint) || has(self.endpoint)",
            "!has(oldSelf.identityRef) || self.identityRef == oldSelf.identityRef",
            "self.endpoint.host != '' || self.endpoint.port == 0",
            "!has(self.topology) || self.topology.class.size() > 0",
            "self.topology.variables.all(v, v.name != 'builtin')",
            "self == oldSelf",
            "has(self.replicas) ? self.replicas >= 0 : true",
            "oldSelf.hasValue() || self.paused == false",
            "self.paused ? true : oldSelf.orValue(self).paused == self.paused || true",
        ],
    );
}

#[test]
fn karpenter_and_kueue() {
    let requirement = json!({"type": "object", "properties": {"key": text(316), "operator": {"type": "string",
        "enum": ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]}, "minValues": {"type": "integer"},
        "values": {"type": "array", "maxItems": 50, "items": text(63)}}});
    taken(
        &requirement,
        &[
            r#"self.key in ["beta.kubernetes.io/arch", "kubernetes.io/os"] || !self.key.matches("^([^/]*\\.)?kubernetes\\.io/")"#,
            r#"self.key != "kubernetes.io/hostname""#,
            r#"self.key.find("^([^/]+)").endsWith("node.kubernetes.io") ? self.key in ["node.kubernetes.io/instance-type"] : true"#,
        ],
    );
    let pool = json!({"type": "object", "properties": {"requirements": {"type": "array", "maxItems": 100, "items": requirement},
        "weight": {"type": "integer"}, "expireAfter": text(20), "role": text(64), "instanceProfile": text(128),
        "tags": {"type": "object", "maxProperties": 50, "additionalProperties": text(256)},
        "blockDeviceMappings": {"type": "array", "maxItems": 50, "items": {"type": "object", "properties": {"rootVolume": {"type": "boolean"},
            "ebs": {"type": "object", "properties": {"volumeSize": text(20), "snapshotID": text(64)}}}}},
        "terms": {"type": "array", "maxItems": 30, "items": {"type": "object", "properties": {"id": text(64), "alias": text(60),
            "name": text(128), "tags": {"type": "object", "maxProperties": 20, "additionalProperties": text(256)}}}},
        "kubelet": {"type": "object", "properties": {"imageGCHighThresholdPercent": {"type": "integer"}, "imageGCLowThresholdPercent": {"type": "integer"},
            "evictionSoft": {"type": "object", "maxProperties": 10, "additionalProperties": text(20)},
            "evictionSoftGracePeriod": {"type": "object", "maxProperties": 10, "additionalProperties": text(20)},
            "kubeReserved": {"type": "object", "maxProperties": 10, "additionalProperties": {"x-kubernetes-int-or-string": true, "maxLength": 40}}}}}});
    taken(
        &pool,
        &[
            "self.requirements.all(x, x.operator == 'In' ? x.values.size() != 0 : true)",
            "self.requirements.all(x, (x.operator == 'Gt' || x.operator == 'Lt') ? (x.values.size() == 1 && int(x.values[0]) >= 0) : true)",
            "self.requirements.all(x, (x.operator == 'In' && has(x.minValues)) ? x.values.size() >= x.minValues : true)",
            "self.terms.size() != 0",
            "self.terms.all(x, has(x.tags) || has(x.id) || has(x.name))",
            "!self.terms.exists(x, has(x.id) && (has(x.tags) || has(x.name)))",
            "self.terms.exists(x, has(x.alias)) ? self.terms.size() == 1 : true",
            "self.terms.all(x, !has(x.tags) || x.tags.all(k, k != '' && x.tags[k] != ''))",
            "self.tags.all(k, k !='karpenter.sh/nodepool' && !k.startsWith('kubernetes.io/cluster'))",
            "self.blockDeviceMappings.filter(x, has(x.rootVolume) ? x.rootVolume == true : false).size() <= 1",
            "(has(self.role) && !has(self.instanceProfile)) || (!has(self.role) && has(self.instanceProfile))",
            "has(self.kubelet.imageGCHighThresholdPercent) && has(self.kubelet.imageGCLowThresholdPercent) ? self.kubelet.imageGCHighThresholdPercent > self.kubelet.imageGCLowThresholdPercent : true",
            "has(self.kubelet.evictionSoft) ? self.kubelet.evictionSoft.all(e, (e in self.kubelet.evictionSoftGracePeriod)) : true",
            "self.kubelet.kubeReserved.all(x, x == 'cpu' || x == 'memory' || x == 'ephemeral-storage' || x == 'pid')",
            "self.kubelet.kubeReserved.all(x, !string(self.kubelet.kubeReserved[x]).startsWith('-'))",
        ],
    );
    let flavour = json!({"type": "object", "properties": {"name": text(253), "resources": {"type": "array", "maxItems": 16, "items": {"type": "object",
        "properties": {"name": text(253), "nominalQuota": {"x-kubernetes-int-or-string": true}, "borrowingLimit": {"x-kubernetes-int-or-string": true}}}}}});
    let queue = json!({"type": "object", "properties": {"cohort": text(253), "queueingStrategy": {"type": "string", "enum": ["StrictFIFO", "BestEffortFIFO"]},
        "resourceGroups": {"type": "array", "maxItems": 16, "items": {"type": "object", "properties": {"coveredResources": {"type": "array", "maxItems": 16, "items": text(253)},
            "flavors": {"type": "array", "maxItems": 16, "items": flavour}}}},
        "preemption": {"type": "object", "properties": {"reclaimWithinCohort": {"type": "string", "enum": ["Never", "Any"]}, "borrowWithinCohort": {"type": "object",
            "properties": {"policy": {"type": "string", "enum": ["Never", "LowerPriority"]}, "maxPriorityThreshold": {"type": "integer"}}}}},
        "podSets": {"type": "array", "maxItems": 8, "items": {"type": "object", "properties": {"name": text(63), "count": {"type": "integer"}, "minCount": {"type": "integer"}}}},
        "status": {"type": "object", "properties": {"conditions": {"type": "array", "maxItems": 16, "items": {"type": "object", "properties": {"type": text(316), "status": text(10)}}}}}}});
    taken(
        &queue,
        &[
            "!has(self.cohort) && has(self.resourceGroups) ? self.resourceGroups.all(rg, rg.flavors.all(f, f.resources.all(r, !has(r.borrowingLimit)))) : true",
            "self.resourceGroups.all(rg, rg.flavors.all(x, size(x.resources) == size(rg.coveredResources)))",
            "!(self.preemption.reclaimWithinCohort == 'Never' && has(self.preemption.borrowWithinCohort) && self.preemption.borrowWithinCohort.policy != 'Never')",
            "self.podSets.all(ps, has(ps.minCount) ? ps.minCount <= ps.count : true)",
            "(has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'QuotaReserved' && c.status == 'True')) ? (oldSelf.podSets == self.podSets) : true",
            "self.queueingStrategy in ['StrictFIFO', 'BestEffortFIFO']",
        ],
    );
}

#[test]
fn cert_manager_external_secrets_and_others() {
    let secrets = json!({"type": "object", "properties": {"refreshInterval": text(20), "target": {"type": "object", "properties": {
        "name": text(253), "creationPolicy": text(20), "deletionPolicy": text(20)}}, "data": {"type": "array", "maxItems": 100, "items": {"type": "object",
            "properties": {"secretKey": text(253), "sourceRef": {"type": "object", "properties": {"name": text(253)}}}}},
        "namespaces": {"type": "array", "maxItems": 50, "items": text(63)}, "privateKey": {"type": "object", "properties": {"algorithm": text(20), "size": {"type": "integer"}}},
        "dnsNames": {"type": "array", "maxItems": 100, "items": text(253)}, "port": {"x-kubernetes-int-or-string": true}, "url": text(2048),
        "labels": {"type": "object", "maxProperties": 32, "additionalProperties": text(63)}, "window": {"type": "object", "properties": {
            "start": {"type": "string", "format": "date-time"}, "end": {"type": "string", "format": "date-time"}, "length": {"type": "string", "format": "duration"}}},
        "limits": {"type": "object", "properties": {"memory": text(20), "storage": {"type": "object", "properties": {"size": text(20)}}}},
        "cidrs": {"type": "array", "maxItems": 10, "items": text(43)}, "version": text(64), "schedule": text(100)}});
    taken(
        &secrets,
        &[
            "!(has(self.target) && self.target.deletionPolicy == 'Delete' && self.target.creationPolicy != 'Owner')",
            "self.data.all(d, d.secretKey.matches('^[-._a-zA-Z0-9]+$'))",
            "self.privateKey.algorithm == 'RSA' ? self.privateKey.size in [2048, 4096, 8192] : true",
            "self.dnsNames.all(n, !n.startsWith('*') || n.startsWith('*.'))",
            "size(self.namespaces) == size(self.namespaces.map(n, n.lowerAscii()))",
            "type(self.port) == int ? self.port > 0 && self.port < 65536 : self.port.matches('^[a-z]+$')",
            "isURL(self.url) && url(self.url).getScheme() in ['http', 'https']",
            "self.labels.all(k, k.size() < 64 && (self.labels[k] == '' || self.labels[k].matches('^[A-Za-z0-9]')))",
            "self.window.start < self.window.end && self.window.length <= duration('24h')",
            "self.window.end - self.window.start >= duration('1h')",
            "quantity(self.limits.memory).compareTo(quantity('64Mi')) >= 0",
            "!has(oldSelf.limits.storage) || quantity(self.limits.storage.size).isLessThan(quantity(oldSelf.limits.storage.size)) == false",
            "self.cidrs.all(c, isCIDR(c) && cidr(c).prefixLength() >= 8)",
            "isSemver(self.version) && semver(self.version).isGreaterThan(semver('0.1.0'))",
            "self.?target.name.orValue('') != 'default'",
            "self.?target.?name.hasValue() || self.refreshInterval != ''",
            "self.labels[?'app'].orValue('') != 'system'",
            "self.labels.all(k, v, k != v)",
            "self.schedule.split(' ').size() == 5",
            "(has(self.url) ? 1 : 0) + (has(self.port) ? 1 : 0) + (has(self.version) ? 1 : 0) == 1",
            "[has(self.url), has(self.port)].exists_one(x, x)",
            "[has(self.url), has(self.port)].filter(x, x == true).size() <= 1",
            "!format.dns1123Label().validate(self.target.name).hasValue()",
            "sets.contains(['a', 'b', 'c'], self.namespaces)",
            "self.dnsNames.isSorted() || self.dnsNames.sort().size() > 0",
            "self.dnsNames.indexOf('localhost') == -1",
            "self.target.name == oldSelf.target.name",
            "duration(self.refreshInterval) >= duration('1m')",
            "!has(self.target) || (has(self.target.name) && self.target.name.size() > 0)",
            "dyn(self.port) == 80 || string(self.port) == 'http'",
            "has(self.labels.app) && self.labels.app == 'x'",
            "'app' in self.labels && self.labels['app'].startsWith('x')",
            "self.data.all(d1, self.data.exists_one(d2, d1.secretKey == d2.secretKey))",
            "self.cidrs.all(c, cidr(c).ip().family() == 4) || ip.isCanonical('10.0.0.1')",
            "self.window.start.getFullYear() >= 2000 && self.window.length.getHours() < 25",
        ],
    );
}
