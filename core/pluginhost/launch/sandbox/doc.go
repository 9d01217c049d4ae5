// Package sandbox takes rights from a plugin's process before the first instruction of the plugin.
//
//	box, err := sandbox.Prepare(policy)                        // nothing is restricted yet
//	image, err := keeper.Image(report, self, box.Steps(number)) // the plugin's process makes the calls
//
// The host prepares everything: a Landlock ruleset, a seccomp filter, and the list of system calls that put both in
// force. The plugin keeper makes these calls in the plugin's process, between fork and exec. Neither the host nor the
// keeper is restricted, so the plugin can neither trace nor signal them. It works in any host, also in one that
// loaded the core as a library and has no program of ours, and for plugins in any language.
//
// # What is taken
//
//	new privileges   no program that the plugin runs gains rights (PR_SET_NO_NEW_PRIVS)
//	capabilities     all but CAP_IPC_LOCK, which kinds that register memory keep if the host has it
//	files            all but those of Policy, by Landlock: system folders to read, its own folders to write
//	processes        tracing, reading and signalling those outside, by Landlock
//	network          connections, and sockets that are not local, unless Policy.Network is set
//	system calls     mounts, modules, kernel programs, keys, namespaces and others, by seccomp
//
// What a kernel lacks is listed in Box.Missing.
package sandbox
