package memory

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// DropCode unmaps the pages of this program's file: its code and constants. What is used again is mapped again from the page
// cache, so after a start, which runs much code once, less of the program is resident. The kernel maps pages in large
// pieces, up to the whole file, whatever of them is used. It returns how many bytes were mapped.
func DropCode() (uint64, error) {
	file, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return 0, err
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return 0, err
	}
	defer maps.Close()
	pieces, err := codeOf(maps, file)
	var resident uint64
	for _, p := range pieces {
		if _, _, e := unix.Syscall(unix.SYS_MADVISE, uintptr(p.start), uintptr(p.end-p.start), unix.MADV_DONTNEED); e != 0 {
			err = errors.Join(err, fmt.Errorf("madvise of %x-%x of %s: %w", p.start, p.end, file, e))
			continue
		}
		resident += p.resident
	}
	return resident, err
}

// piece is a mapping.
type piece struct{ start, end, resident uint64 }

// codeOf finds in smaps the mappings of a file that cannot be written and have no page that differs from the file's: those
// that a linker has changed would lose their content.
func codeOf(smaps io.Reader, file string) ([]piece, error) {
	var found []piece
	var at piece
	mine := false
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		line := lines.Text()
		var perms, name string
		var start, end, kib uint64
		switch {
		case scan(line, "%x-%x %s", &start, &end, &perms):
			at = piece{start: start, end: end}
			_, path, ok := strings.Cut(line, "/")
			mine = ok && "/"+path == file && (perms == "r-xp" || perms == "r--p")
		case !mine || !scan(line, "%s %d kB", &name, &kib):
		case name == "Rss:":
			at.resident = kib << 10
		case name == "Anonymous:" && kib == 0:
			found = append(found, at)
		}
	}
	return found, lines.Err()
}

func scan(line, format string, into ...any) bool {
	n, err := fmt.Sscanf(line, format, into...)
	return err == nil && n == len(into)
}
