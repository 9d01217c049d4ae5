// Package upstream is what is known of the reference implementation's names
// (kvcache-ai/Mooncake): every flag of mooncake_master and mooncake_client, the keys of
// its configuration files and the variables it reads from the environment.
//
// The tables are data. Each name either maps onto a key of ours, or carries the
// capability it belongs to, so that a setting which has no effect yet says so. The types,
// defaults and bounds are the reference implementation's.
package upstream
