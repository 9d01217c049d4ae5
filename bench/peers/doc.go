// Package peers starts what is compared: this project, what a user would take instead, and the
// programs that show a limit of the machine. One file for each.
//
// Every process belongs to a Scope, which ends it; the kernel ends it with the program that
// measures if that dies. All listen on loopback, on ports that nobody else has.
package peers
