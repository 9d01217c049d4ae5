// Package frame is how the two sides of a local attachment talk beside their calls: which peer is
// at the other end of the socket, what a connection is for, and messages that carry a file
// descriptor.
package frame
