// Package security is how the processes of a pool prove to each other who they are: certificates
// from files, the identities in them, and the TLS configurations made of both.
//
// A Keeper holds the files of one process and reads them again when they change. Its Server and
// Client configurations follow the files: a connection that begins later uses the new ones, and one
// that exists goes on. Everything is TLS 1.3.
//
// An identity is the URI "spiffe://TRUST/mooncake/ROLE/NAME" in a certificate, or what an entry of
// Settings.Allow makes of a subject, a DNS name or another URI. A nil *Keeper stands for ModeOff.
package security
