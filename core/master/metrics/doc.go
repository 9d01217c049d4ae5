// Package metrics counts what the master does and shows it under the names that existing
// dashboards and scripts know.
//
// The hot path adds to plain atomic counters; names, labels and help texts are added only when a
// client scrapes. Names of features that this master does not have are present and stay 0, so
// that a dashboard finds every series. Everything is safe for concurrent use.
package metrics
