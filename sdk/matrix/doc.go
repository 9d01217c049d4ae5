// Package matrix is the topology matrix: for each location of memory ("cpu:0", "cuda:3")
// the network devices that are near it and those that also reach it.
//
// Nodes publish it in their segment descriptor as `priority_matrix`, operators write it
// into files, and both ends of a transfer choose devices by it. The JSON form is
//
//	{"cpu:0":[["mlx5_0"],["mlx5_1"]],"cuda:0":[["mlx5_1"],["mlx5_0"]]}
//
// with the preferred devices first. A Matrix is a value that never changes, so it may be
// shared; one that follows a device going down is a new one (Without) with the same indexes.
//
// The package imports the standard library and sdk/errs only.
package matrix
