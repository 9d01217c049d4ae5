// Package attack attacks real processes from outside, in each security mode, and says by what it sees which
// attacks they refused. make attack runs all modes and writes the results; go test runs mtls.
package attack
