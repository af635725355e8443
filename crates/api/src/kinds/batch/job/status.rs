//! Validates the status of a Job: a Job finishes once, after this has been announced, and stays finished.
//!
//! **Invariant:** a rule is checked only if the fields it covers change, so that a status that already breaks it can
//! still be updated elsewhere. The format of index lists is deliberately not validated.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::Error;
use crate::object::read;
use crate::resource::value_at::{Errors, ValueAt};

/// A Job before and after a change, and the path of its status.
struct JobStatusChange<'a> {
    new: &'a Value,
    old: &'a Value,
    status: ValueAt<'a>,
}

/// Validates the status of a changed Job.
pub(in crate::kinds) fn validate_status(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    let change = JobStatusChange { new: new.value, old, status: new.field("status") };
    for name in ["active", "succeeded", "failed", "ready", "terminating"] {
        change.status.field(name).must_not_be_negative(errors);
    }
    change.conditions(errors);
    change.ends(errors);
    change.times(errors);
    change.numbers(errors);
    change.indexes(errors);
}

fn says(job: &Value, kind: &str, status: &str) -> bool {
    read::list_at(&job["status"], "conditions")
        .iter()
        .any(|one| one["type"] == kind && one["status"] == status)
}

fn is_finished(job: &Value) -> bool {
    says(job, "Complete", "True") || says(job, "Failed", "True")
}

impl JobStatusChange<'_> {
    fn is(&self, kind: &str) -> bool {
        says(self.new, kind, "True")
    }

    fn was(&self, kind: &str) -> bool {
        says(self.old, kind, "True")
    }

    fn turns(&self, kind: &str) -> bool {
        self.is(kind) != self.was(kind)
    }

    fn differs(&self, name: &str) -> bool {
        self.new["status"][name] != self.old["status"][name]
    }

    fn finishes(&self) -> bool {
        is_finished(self.new) != is_finished(self.old)
    }

    fn refuse(&self, detail: &str, errors: &mut Errors) {
        errors.push(Error::invalid_unshown(&self.status.field("conditions").path, detail));
    }

    /// Validates conditions that exclude or require each other.
    fn conditions(&self, errors: &mut Errors) {
        for (one, other, is_always) in [
            ("Complete", "Failed", false),
            ("Complete", "FailureTarget", false),
            ("SuccessCriteriaMet", "Failed", true),
            ("SuccessCriteriaMet", "FailureTarget", true),
        ] {
            let is_asked = is_always || self.turns(one) || self.turns(other);
            if is_asked && self.is(one) && self.is(other) {
                self.refuse(&format!("cannot set {one}=True and {other}=true conditions"), errors);
            }
        }
        for (end, sign, is_asked) in [
            ("Failed", "FailureTarget", self.turns("Failed") || self.differs("failedIndexes")),
            ("Complete", "SuccessCriteriaMet", self.turns("Complete") || self.turns("SuccessCriteriaMet")),
        ] {
            if is_asked && self.is(end) && !self.is(sign) {
                let detail = format!("cannot set {end}=True condition without the {sign}=true condition");
                self.refuse(&detail, errors);
            }
        }
        let has_policy = !self.new["spec"]["successPolicy"].is_null();
        if has_policy && self.is("Complete") && !self.is("SuccessCriteriaMet") {
            let detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
            self.refuse(detail, errors);
        }
    }

    /// Requires a finished Job to stay finished.
    fn ends(&self, errors: &mut Errors) {
        let goes = |kind: &str| self.was(kind) && !self.is(kind);
        for kind in ["Failed", "Complete", "FailureTarget"].into_iter().filter(|kind| goes(kind)) {
            self.refuse(&format!("cannot disable the terminal {kind}=True condition"), errors);
        }
        if goes("SuccessCriteriaMet") {
            self.refuse("cannot disable the SuccessCriteriaMet=True condition", errors);
        }
        if self.was("Complete") && !self.was("SuccessCriteriaMet") && self.is("SuccessCriteriaMet") {
            let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
            self.refuse(detail, errors);
        }
    }

    fn times(&self, errors: &mut Errors) {
        let (start, end) = (self.status.field("startTime"), self.status.field("completionTime"));
        let (spec, before) = (&self.new["spec"], &self.old["status"]);
        if self.turns("Complete") || self.differs("completionTime") {
            if end.is_set() && !self.is("Complete") {
                end.invalid("cannot set completionTime when there is no Complete=True condition", errors);
            }
            if !end.is_set() && self.is("Complete") {
                end.required("completionTime is required for Complete jobs", errors);
            }
        }
        let time = |at: &ValueAt<'_>| at.text().parse::<Timestamp>().ok();
        if (self.differs("startTime") || self.differs("completionTime"))
            && let (Some(start), Some(ended)) = (time(&start), time(&end))
            && ended < start
        {
            end.invalid("must be equal to or after `startTime`", errors);
        }
        if end.is_set() && !before["completionTime"].is_null() && self.differs("completionTime") {
            end.invalid("field is immutable", errors);
        }
        let is_suspended = spec["suspend"] == true;
        let is_asked = self.finishes() || self.differs("startTime");
        if is_asked && !start.is_set() && is_finished(self.new) && !(is_suspended && spec["completions"] == 0)
        {
            start.required("startTime is required for finished job", errors);
        }
        let resumes = says(self.old, "Suspended", "True") && says(self.new, "Suspended", "False");
        let moves = !before["startTime"].is_null() && self.differs("startTime");
        if moves && !is_suspended && !resumes {
            start.invalid("field is immutable for unsuspended job once set", errors);
        }
    }

    fn numbers(&self, errors: &mut Errors) {
        let is_over = is_finished(self.new);
        for name in ["active", "terminating"] {
            let number = self.status.field(name);
            if is_over && number.number() > 0 && (self.finishes() || self.differs(name)) {
                number.invalid(&format!("{name}>0 is invalid for finished job"), errors);
            }
        }
        let uncounted = self.status.field("uncountedTerminatedPods");
        let has_uncounted = ["succeeded", "failed"].iter().any(|list| uncounted.field(list).len() > 0);
        if is_over && has_uncounted && (self.finishes() || self.differs("uncountedTerminatedPods")) {
            uncounted.invalid("must be empty for finished job", errors);
        }
        let (ready, active) = (self.status.field("ready"), self.status.field("active").number());
        if ready.number() > active && (self.differs("ready") || self.differs("active")) {
            ready.invalid("cannot set more ready pods than active", errors);
        }
        let spec = &self.new["spec"];
        let is_elastic = spec["completionMode"] == "Indexed" && spec["completions"] == spec["parallelism"];
        for (name, may_fall) in [("failed", false), ("succeeded", is_elastic)] {
            let number = self.status.field(name);
            if !may_fall && number.number() < self.old["status"][name].as_i64().unwrap_or(0) {
                let value = json!(number.number());
                let detail = format!("cannot decrease the {name} counter");
                errors.push(Error::invalid(&number.path, &value, &detail));
            }
        }
    }

    fn indexes(&self, errors: &mut Errors) {
        let spec = &self.new["spec"];
        let (completed, failed) = (self.status.field("completedIndexes"), self.status.field("failedIndexes"));
        if self.differs("completedIndexes") && !completed.is_zero() && spec["completionMode"] != "Indexed" {
            let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
            completed.invalid(detail, errors);
        }
        if self.differs("failedIndexes") && failed.is_set() && spec["backoffLimitPerIndex"].is_null() {
            failed.invalid("cannot set non-null failedIndexes when backoffLimitPerIndex is null", errors);
        }
    }
}
