// Package observe makes what operators watch the process with: structured logs now,
// traces later. Metrics live with what they measure.
package observe
