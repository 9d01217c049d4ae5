//go:build linux && amd64

package steps

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ErrRefused is the error of Count where the system forbids ptrace, as some containers do.
var ErrRefused = errors.New("ptrace is not permitted")

// errBlocked is the error of a call that waits.
var errBlocked = errors.New("the call blocked: another goroutine, whose thread stood still, has what it waits for")

// attempts is how often Count begins.
const attempts = 5

// Process is a child that serves rows. One goroutine at a time may use it.
type Process struct {
	cmd      *exec.Cmd
	requests *os.File
	answers  *os.File
	hello    greeting
	end      *time.Timer
	steps    atomic.Int64
}

// Start starts cmd, which has to call Serve, and waits until it does. After limit the process is killed, so that no
// later call waits longer.
func Start(cmd *exec.Cmd, limit time.Duration) (*Process, error) {
	in, requests, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	answers, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), requests.Close())
	}
	cmd.ExtraFiles = []*os.File{in, out}
	// Signals that preempt a goroutine would count, and the records that the profile of the heap takes now and then.
	cmd.Env = append(cmd.Environ(), "GODEBUG=asyncpreemptoff=1,memprofilerate=0", "GOGC=off")
	err = cmd.Start()
	err = errors.Join(err, in.Close(), out.Close())
	if err != nil {
		return nil, errors.Join(err, requests.Close(), answers.Close())
	}
	p := &Process{cmd: cmd, requests: requests, answers: answers}
	p.end = time.AfterFunc(limit, p.kill)
	line, err := bufio.NewReader(answers).ReadBytes('\n') // The child writes nothing behind it before a request.
	if err == nil {
		err = json.Unmarshal(line, &p.hello)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the process that serves rows did not begin: %w", err), p.Close())
	}
	return p, nil
}

// kill ends the process while Count waits for one of its threads. The first thread is not done until all others that
// are traced have been waited for.
func (p *Process) kill() {
	_ = p.cmd.Process.Kill()
	tids, _ := p.threads()
	for _, tid := range tids {
		if tid != p.cmd.Process.Pid {
			_, _ = wait(tid) // A thread that is not traced is an error at once.
		}
	}
}

func (p *Process) threads() (tids []int, err error) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.cmd.Process.Pid))
	for _, task := range tasks {
		if tid, err := strconv.Atoi(task.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids, err
}

// Close ends the process.
func (p *Process) Close() error {
	err := errors.Join(p.requests.Close(), p.cmd.Wait(), p.answers.Close())
	p.end.Stop()
	return err
}

// Rows returns the names of the rows that the process serves.
func (p *Process) Rows() []string { return p.hello.Rows }

// Count has the process make the call of a row and returns how many instructions that took. It begins again if the call
// blocks: a thread that stands still may have a lock of the runtime, or the scheduler may ask the goroutine to yield.
func (p *Process) Count(row int) (n int, err error) {
	runtime.LockOSThread() // ptrace is of one thread.
	defer runtime.UnlockOSThread()
	for range attempts {
		if n, err = p.try(byte(row)); !errors.Is(err, errBlocked) {
			return n, err
		}
	}
	return 0, err
}

func (p *Process) try(row byte) (n int, err error) {
	if err := errors.Join(p.ask(row), p.answered()); err != nil {
		return 0, err
	}
	threads, err := p.freeze()
	if err == nil {
		if err = p.ask(0); err == nil {
			done := make(chan struct{})
			go p.watch(done)
			n, err = p.step()
			close(done)
		}
	}
	for tid := range threads {
		err = errors.Join(err, unix.PtraceDetach(tid))
	}
	if err == nil || errors.Is(err, errBlocked) { // The call ends by itself now.
		err = errors.Join(err, p.answered())
	}
	return n, err
}

// watch interrupts a call that makes no step for a while.
func (p *Process) watch(done <-chan struct{}) {
	const while = time.Second / 4
	tick := time.NewTicker(while)
	defer tick.Stop()
	for last := int64(-1); ; {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		now := p.steps.Load()
		if now == last {
			_ = unix.Tgkill(p.cmd.Process.Pid, p.hello.Thread, unix.SIGURG)
		}
		last = now
	}
}

func (p *Process) ask(b byte) error {
	_, err := p.requests.Write([]byte{b})
	return err
}

func (p *Process) answered() error {
	if _, err := p.answers.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("the process that serves rows has ended: %w", err)
	}
	return nil
}

// freeze stops all threads of the process, and returns those that it has attached to.
func (p *Process) freeze() (map[int]bool, error) {
	stopped := map[int]bool{}
	for {
		before := len(stopped)
		tids, err := p.threads()
		if err != nil {
			return stopped, err
		}
		for _, tid := range tids {
			if stopped[tid] {
				continue
			}
			switch err := unix.PtraceSeize(tid); {
			case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOSYS):
				return stopped, fmt.Errorf("%w: %w", ErrRefused, err)
			case errors.Is(err, unix.ESRCH): // The thread has ended.
				continue
			case err != nil:
				return stopped, err
			}
			stopped[tid] = true
			if err := stop(tid); err != nil {
				return stopped, err
			}
		}
		if len(stopped) == before { // No thread was left to start another one.
			return stopped, nil
		}
	}
}

// stop stops a thread. It passes signals on that arrive before.
func stop(tid int) error {
	if err := unix.PtraceInterrupt(tid); err != nil {
		return err
	}
	for {
		s, err := wait(tid)
		if err != nil || s.TrapCause() == unix.PTRACE_EVENT_STOP {
			return err
		}
		if err := unix.PtraceCont(tid, int(s.StopSignal())); err != nil {
			return err
		}
	}
}

// step lets the thread of the rows run to the second mark, and counts the instructions between the marks.
func (p *Process) step() (n int, err error) {
	tid := p.hello.Thread
	var regs unix.PtraceRegs
	for begun, last := false, uint64(0); ; {
		if err := unix.PtraceSingleStep(tid); err != nil {
			return 0, err
		}
		s, err := wait(tid)
		if err != nil {
			return 0, err
		}
		p.steps.Add(1)
		if s.StopSignal() != unix.SIGTRAP { // of watch
			return 0, errBlocked
		}
		if err := unix.PtraceGetRegs(tid, &regs); err != nil {
			return 0, err
		}
		switch pc := regs.PC(); {
		case pc == p.hello.Mark && begun:
			return n, nil
		case pc == p.hello.Mark:
			begun = true
		case pc == last: // A string instruction traps at each repetition.
		case pc>>40 != p.hello.Mark>>40: // The kernel's code to read clocks loops for longer, the longer ago it read them.
		default:
			n++
		}
		if !begun {
			n = 0
		}
		last = regs.PC()
	}
}

// wait waits until a thread stops.
func wait(tid int) (s unix.WaitStatus, err error) {
	for {
		_, err = unix.Wait4(tid, &s, unix.WALL, nil)
		if err == nil && !s.Stopped() {
			err = errors.New("the process that serves rows has ended")
		}
		if !errors.Is(err, unix.EINTR) {
			return s, err
		}
	}
}
