// Package certs makes the certificates with which nodes tell each other who they are: an
// authority for one pool, and a certificate for each node.
//
// It is meant for trials, laboratories and pools without an authority of their own. The
// certificates are ordinary X.509 ones: ECDSA P-256, names and addresses as subject alternative names, for
// use as server and as client. Key files are readable by their owner only; nothing is
// overwritten but by Renew.
package certs
