// Package netem holds the transports to what they are for on links with distance and
// loss: two processes, each in a network namespace of its own, and between them a link
// that delays and drops packets.
//
// The link is the kernel's, a pair of veth devices with tc netem, where the kernel has it, and else a
// program's: two TUN devices between which Emulator carries packets. Both need rights that
// containers seldom give (CAP_NET_ADMIN and CAP_SYS_ADMIN); the tests say so and skip.
package netem
