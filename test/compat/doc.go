// Package compat runs hosts and plugins of two releases against each other, with real processes:
// the release of this tree (N) and the one before (N-1), whose commit is in the file previous.
// docs/plugins/versions.md says what has to hold.
package compat
