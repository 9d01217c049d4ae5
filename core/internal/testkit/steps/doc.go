// Package steps counts the user-mode instructions of a call, for tests that gate what a call costs. It needs no
// performance counter, which many virtual machines lack: a child process makes the call, and this process steps through
// it by ptrace. All other threads of the child stand still meanwhile, so that neither the scheduler nor a timer adds
// anything. A repeated string instruction is one
// instruction, and those of the kernel's vDSO, which reads clocks, are none.
//
// A step is two switches between processes and an interrupt: 2 to 40 µs. It works on Linux on amd64.
package steps
