// Package codec turns what the two sides of a local attachment say into messages and back.
// Decoding never trusts the other side: what does not fit together is an InvalidParams.
package codec
