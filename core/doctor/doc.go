// Package doctor looks at the machine that a role is to run on and says what will not
// work, or not well: what was found, why it matters, and what to do.
//
// It changes nothing. All of the machine is read through an fs.FS and a few functions, so
// that tests look at recorded machines. Every check has a bound in time, and one that does
// not come back does not keep the others.
package doctor
