// Package micro measures what this machine and its plugins can do at best, without a
// cluster: memory, checksum, content, allocators, eviction policies and transports, each
// beside a baseline: a copy in memory, or plain TCP connections. It is what `mooncake bench` runs.
//
// Figures are medians over rounds. They are for comparison on one machine at one time; no
// test asserts them.
package micro
