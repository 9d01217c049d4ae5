// Package e2e tests the programs as an operator runs them: real processes, real sockets,
// SIGKILL. Everything stays on loopback and ends with the test, however it ends.
package e2e
