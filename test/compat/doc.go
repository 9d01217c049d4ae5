// Package compat runs hosts and plugins of two releases against each other, with real
// processes: the release of this tree (N) and the one before (N-1), whose commit is in the
// file previous. What has to hold is written in docs/plugins/versions.md.
package compat
