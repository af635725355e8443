//! A node that runs Pods as local processes.
