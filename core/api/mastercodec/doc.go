// Package mastercodec turns the messages of the master's busiest calls into protobuf's binary
// form and back, faster than package proto and with an allocation a column instead of one a
// key (ADR 0019 has the figures).
//
// It speaks the same format: what it writes, proto reads, and the reverse. It has code of its
// own for columns only, the fields with an entry an item. Whatever else it meets it leaves
// to package proto, to which the whole message goes: other messages, fields that it does not
// know, encodings that no writer of ours uses, and bytes that cannot be decoded, so that the
// errors are proto's as well.
//
// No message keeps a part of the bytes that it was read from. The keys of one request share an
// allocation, except where the master keeps them (PutStart): there each has its own, so that
// an object that stays does not keep the keys of those that went.
package mastercodec
