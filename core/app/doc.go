// Package app composes the rooms into roles with fx: master, metadata server, store node
// and client. It is the only package that knows how the rooms meet; every room works
// without it.
//
// A role is an fx.Option. Constructors only build; whatever acquires a port, memory or a
// child process does so in an OnStart hook, so that Check can build a whole role without
// touching anything.
package app
