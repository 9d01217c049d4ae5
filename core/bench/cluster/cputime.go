package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// snapshots bounds how often a set of processes is read again because it changed meanwhile.
	snapshots = 20
	// tick is the unit in which the kernel reports the processor time of children that have ended.
	tick = time.Second / 100
)

// CPUTime returns the processor time, user and system, that the processes and all processes below them have used so far.
// It includes threads that have ended, and processes below them that have ended and were waited for. A process that is not
// there is an error.
func CPUTime(pids ...int) (time.Duration, error) { return without(0, pids) }

// without leaves out what one process has used by itself.
func without(one int, pids []int) (time.Duration, error) {
	if len(pids) == 0 {
		return 0, nil
	}
	for range snapshots {
		all, err := tree(pids)
		if err != nil {
			return 0, err
		}
		sum, gone := total(all, one)
		if after, err := tree(pids); err == nil && gone == nil && slices.Equal(all, after) {
			return sum, nil
		}
	}
	return 0, fmt.Errorf("processor time of the processes %v: processes below them start and end all the time; measure them when they are steady", pids)
}

// total adds up what processes have used, and their children that have ended.
func total(pids []int, without int) (sum time.Duration, err error) {
	for _, pid := range pids {
		s, err := statOf(pid)
		if err != nil {
			return 0, err
		}
		sum += s.reaped
		if pid == without {
			continue
		}
		own, err := clock(pid)
		if err != nil {
			return 0, err
		}
		sum += own
	}
	return sum, nil
}

// clock reads the processor clock of a process, in nanoseconds; /proc has hundredths of a second.
func clock(pid int) (time.Duration, error) {
	const whole, scheduled = 0, 2 // of the process, not of a thread; all time on a processor
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|whole|scheduled), &t); err != nil {
		return 0, fmt.Errorf("processor clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// tree returns the processes and all below them, in order.
func tree(pids []int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	children := map[int][]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if stat, err := statOf(pid); err == nil {
			children[stat.parent] = append(children[stat.parent], pid)
		}
	}
	var all []int
	for _, pid := range pids {
		if _, err := statOf(pid); err != nil {
			return nil, fmt.Errorf("processor time of process %d: it has ended: %w", pid, err)
		}
		all = append(all, pid)
	}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// stat is what a process is and what it has waited for.
type stat struct {
	parent int
	reaped time.Duration // processor time of children that have ended, and of theirs
}

func statOf(pid int) (s stat, err error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return s, err
	}
	return parseStat(string(text))
}

// parseStat reads a line of /proc/PID/stat.
func parseStat(text string) (s stat, err error) {
	// The name, in parentheses, may hold anything; the state and the parent follow it.
	const parent, childUser, childSystem = 1, 13, 14
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) <= childSystem {
		return s, fmt.Errorf("/proc/PID/stat has %d fields after the name: %.100q", len(fields), text)
	}
	var n [3]int
	for i, at := range []int{parent, childUser, childSystem} {
		if n[i], err = strconv.Atoi(fields[at]); err != nil {
			return s, fmt.Errorf("/proc/PID/stat: %w", err)
		}
	}
	return stat{parent: n[0], reaped: time.Duration(n[1]+n[2]) * tick}, nil
}

// Meter measures the processor time that this process uses for some work, and a set of processes with all processes below
// them. What lies below this process counts only if the set has this process.
type Meter struct {
	pids      []int
	rest, own time.Duration // own is apart, so that reading the set does not count
}

// StartMeter begins to measure.
func StartMeter(pids ...int) (Meter, error) {
	self := os.Getpid()
	m := Meter{pids: pids}
	var err error
	if m.rest, err = without(self, m.pids); err != nil {
		return m, err
	}
	m.own, err = clock(self)
	return m, err
}

// Stop returns the processor time used since the start. It is an error if one of the set has ended since.
func (m Meter) Stop() (time.Duration, error) {
	own, err := clock(os.Getpid())
	if err != nil {
		return 0, err
	}
	rest, err := without(os.Getpid(), m.pids)
	return own - m.own + rest - m.rest, err
}

// CPUTime returns the processor time, user and system, of the process and those below it, also once Wait has returned.
func (p *Proc) CPUTime() (time.Duration, error) {
	t, err := CPUTime(p.PID())
	select {
	case <-p.done:
		return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime(), nil
	default:
		return t, err
	}
}
