//! Random changes like those of users: new, changed, invalid or deleted objects, one or several at a time.

use homeostat::plan::Change;
use homeostat_core::{Clock, Entropy};
use serde_json::{Value, json};

/// A source of random changes.
pub(super) struct RandomChanges {
    pub(super) entropy: Entropy,
    pub(super) clock: Clock,
}

impl RandomChanges {
    pub(super) fn pick<T: Copy>(&self, choices: &[T]) -> T {
        let index = self.entropy.below(choices.len() as u64);
        choices[usize::try_from(index).unwrap()]
    }

    fn is_in(&self, parts: u64) -> bool {
        self.entropy.below(parts) == 0
    }

    /// Applies one to three objects; one time in five, deletes one instead.
    fn change(&self, make: impl Fn() -> Value) -> (Change, Vec<Value>, bool) {
        if self.is_in(5) {
            let object = make();
            return (Change::delete(vec![object.clone()]), vec![object], true);
        }
        let count = self.pick(&[1, 1, 1, 2, 3]);
        let mut objects: Vec<Value> = Vec::new();
        while objects.len() < count {
            let object = make();
            if objects.iter().all(|one| identity(one) != identity(&object)) {
                objects.push(object);
            }
        }
        (Change::apply(objects.clone()), objects, false)
    }

    /// Ats that are due, due later, or never; sometimes a Pod of one, to be deleted.
    pub(super) fn of_ats(&self) -> (Change, Vec<Value>, bool) {
        let now = self.clock.now().as_second();
        let name = || self.pick(&["a", "b", "c", "d", "e"]);
        if self.is_in(8) {
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("{}-pod", name()), "namespace": "default"}});
            return (Change::delete(vec![pod.clone()]), vec![pod], true);
        }
        self.change(|| {
            let seconds = self.pick(&[-100_000, -3600, 7200, 100_000]);
            let time = jiff_text(now + seconds);
            let schedule = if self.is_in(6) { "tomorrow" } else { &*time };
            json!({"apiVersion": "cnat.programming-kubernetes.info/v1alpha1", "kind": "At",
                   "metadata": {"name": name(), "namespace": "default"},
                   "spec": {"schedule": schedule, "command": self.pick(&["true", "echo $HOME", "date"])}})
        })
    }

    /// Databases with various settings; sometimes one of their children, to be deleted.
    pub(super) fn of_databases(&self) -> (Change, Vec<Value>, bool) {
        let name = || self.pick(&["orders", "users", "stock"]);
        if self.is_in(6) {
            let name = name();
            let child = self.pick(&[
                ("apps/v1", "StatefulSet", ""),
                ("v1", "Service", ""),
                ("v1", "Secret", "-credentials"),
            ]);
            let object = json!({"apiVersion": child.0, "kind": child.1,
                "metadata": {"name": format!("{name}{}", child.2), "namespace": "default"}});
            return (Change::delete(vec![object.clone()]), vec![object], true);
        }
        self.change(|| {
            let mut spec = json!({"maxConnections": self.pick(&[5, 20, 50, 2000]),
                "deletionPolicy": self.pick(&["Delete", "Retain"])});
            if self.is_in(2) {
                spec["port"] = self.pick(&[6001, 6002, 6003]).into();
            }
            if self.is_in(3) {
                spec["parameters"] = json!({self.pick(&["work_mem", "port", "shared_buffers"]): "8MB"});
            }
            if self.is_in(8) {
                spec["databaseName"] = self.pick(&["app", "other"]).into();
            }
            json!({"apiVersion": "database.example.com/v1", "kind": "Database",
                   "metadata": {"name": name(), "namespace": "default"}, "spec": spec})
        })
    }

    /// Shapes of all forms and colours.
    pub(super) fn of_shapes(&self) -> (Change, Vec<Value>, bool) {
        self.change(|| {
            let mut shape = json!({"apiVersion": "shapes.demo.dev/v1", "kind": "Shape",
                "metadata": {"name": self.pick(&["a", "b", "c", "d"]), "namespace": "default"},
                "spec": {"type": self.pick(&["square", "circle", "triangle"]), "color": self.pick(&["red", "blue"])}});
            if self.is_in(8) {
                shape["spec"]["type"] = "blob".into();
            }
            shape
        })
    }

    /// Workloads of all kinds, in two namespaces, and the second namespace itself.
    pub(super) fn of_workloads(&self) -> (Change, Vec<Value>, bool) {
        self.change(|| {
            let namespace = self.pick(&["default", "default", "second"]);
            let mut object = match self.entropy.below(8) {
                0 | 1 => self.deployment(),
                2 => self.stateful_set(),
                3 => self.job(),
                4 => self.cron_job(),
                5 => self.service(),
                6 => self.disruption_budget(),
                _ => {
                    let labels = json!({"a": self.pick(&["x", "y"])});
                    return json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "second", "labels": labels}});
                }
            };
            object["metadata"] = json!({"name": self.pick(&["web", "api"]), "namespace": namespace});
            object
        })
    }

    fn template(&self) -> Value {
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [
            {"name": "main", "image": self.pick(&["a:1", "a:2"]), "ports": [{"containerPort": 80}]}]}})
    }

    fn deployment(&self) -> Value {
        let mut spec = json!({"replicas": self.pick(&[0, 1, 2, 4]), "selector": {"matchLabels": {"app": "web"}},
                              "template": self.template()});
        if self.is_in(3) {
            spec["strategy"] = json!({"type": "Recreate"});
        }
        if self.is_in(6) {
            spec["paused"] = true.into();
        }
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec})
    }

    fn stateful_set(&self) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {
            "replicas": self.pick(&[0, 1, 3]), "serviceName": "web", "selector": {"matchLabels": {"app": "web"}},
            "podManagementPolicy": self.pick(&["OrderedReady", "Parallel"]), "template": self.template()}})
    }

    fn job(&self) -> Value {
        let mut template = self.template();
        template["spec"]["restartPolicy"] = "Never".into();
        json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": self.pick(&[1, 2]),
            "completions": self.pick(&[1, 3]), "suspend": self.is_in(4), "template": template}})
    }

    fn cron_job(&self) -> Value {
        let job = self.job()["spec"].clone();
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"schedule": self.pick(&["0 0 1 1 *", "0 3 29 2 *"]),
            "suspend": self.is_in(2), "jobTemplate": {"spec": job}}})
    }

    fn service(&self) -> Value {
        json!({"apiVersion": "v1", "kind": "Service", "spec": {"selector": {"app": self.pick(&["web", "none"])},
            "ports": [{"name": "http", "port": self.pick(&[80, 8080]), "targetPort": 80}]}})
    }

    fn disruption_budget(&self) -> Value {
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {
            "minAvailable": self.pick(&[1, 2]), "selector": {"matchLabels": {"app": "web"}}}})
    }
}

fn identity(object: &Value) -> (Value, Value, Value) {
    let metadata = &object["metadata"];
    (object["kind"].clone(), metadata["namespace"].clone(), metadata["name"].clone())
}

fn jiff_text(second: i64) -> String {
    jiff::Timestamp::from_second(second).unwrap().to_string()
}
