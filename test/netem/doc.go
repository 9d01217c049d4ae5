// Package netem tests transports, the engine and the store on links that are slow, shared,
// far or lossy: processes in two network namespaces, and between them a link that limits the
// rate, delays and drops packets.
//
// TestFarAndLossy compares quic with tcp on a link with distance and loss. TestSlowAndShared
// runs the cells of a table (rate x clients x round trip x loss x transport x level) and
// holds each to three counts: no request fails, no byte is wrong, and each byte of payload
// crosses the link about once. It prints how long each operation took, as a Markdown table.
// The environment selects:
//
//   - NETEM_CELLS: one (the default), short, rates or all; -run selects among them by name.
//   - NETEM_OUT: a file to which the rows of the table are appended.
//   - NETEM_PYTHON: a Python with this project's requirements, to run the cells of the
//     engine over its package in sdk/python too.
//   - NETEM_UPSTREAM: a Python that has the reference implementation, as a control.
//   - NETEM_LOG: set to anything, for the logs of every process.
//
// The link is the kernel's, a pair of veth devices with tc tbf, and with tc netem where there is
// delay or loss and the kernel has it; else the link is a program's: two TUN devices between which
// Emulator carries packets. Both need rights that containers seldom give (CAP_NET_ADMIN and
// CAP_SYS_ADMIN); the tests say so and skip.
package netem
