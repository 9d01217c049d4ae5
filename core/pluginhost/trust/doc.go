// Package trust decides which programs may run, by the owners of files and folders and by the
// lock file.
//
//	f, err := trust.Open(path)                       // no other user can change it
//	judge := trust.ReadJudge(trust.ModeLocked, lock) // the lock file as it is now
//	verdict, refused := judge.Of(id, version, sha256)
//
// # Owners
//
// A file is trusted if only root and this user can change it, the folder it lies in, and every
// folder and symbolic link on the way there. One open file is both checked and read. The same
// rule applies to the lock file.
//
// # The lock file
//
// It maps a plugin and a platform, such as linux/amd64, to the SHA-256 of the program. Package
// find compares it with the checksum of the bytes that are about to run. The file is parsed
// strictly, and replaced atomically by one program at a time.
//
// This package runs nothing. Its functions are safe for concurrent use.
package trust
