// Package trust says whose programs may run: what the owners of files and folders allow, and
// what the lock file has.
//
//	f, err := trust.Open(path)                       // nobody else can change it
//	judge := trust.ReadJudge(trust.ModeLocked, lock) // the lock file as it is now
//	verdict, refused := judge.Of(id, version, sha256)
//
// # Owners
//
// A file is trusted if nobody but root and this user can change it, the folder it lies in,
// or any folder or symbolic link on the way there. The check and the reading are of one open
// file. The lock file is under the same rule.
//
// # The lock file
//
// It maps a plugin and a platform, such as linux/amd64, to the SHA-256 of the program.
// Package find compares with it what it is about to run, byte for byte. It is read strictly,
// and written whole or not at all, by one program at a time.
//
// This package opens and compares; it runs nothing. Its functions may be called by several
// goroutines at once.
package trust
