//! The built-in controllers: Deployment, ReplicaSet, StatefulSet, Job, CronJob, endpoints.
