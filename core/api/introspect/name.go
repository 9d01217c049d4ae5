package introspect

import (
	"fmt"
	"regexp"
	"strconv"
)

// nameRE is the name of a socket: role-pid.sock, with a number where another process has
// that name, as happens to containers that share a folder.
var nameRE = regexp.MustCompile(`^([a-z][a-z0-9-]{0,31})-([1-9][0-9]{0,9})(?:\.([1-9][0-9]?))?\.sock$`)

// hiddenRE is a name under which a socket is made, before it gets its own.
var hiddenRE = regexp.MustCompile(`^\.(?:[a-z][a-z0-9-]{0,31}-[1-9][0-9]{0,9}(?:\.[1-9][0-9]?)?\.)?[0-9a-f]{1,8}$`)

// maxTwins bounds how many sockets of one role and number there are in a folder.
const maxTwins = 99

func socketName(role string, pid, twin int) string {
	if twin == 0 {
		return fmt.Sprintf("%s-%d.sock", role, pid)
	}
	return fmt.Sprintf("%s-%d.%d.sock", role, pid, twin)
}

// parseName returns what the name of a socket says.
func parseName(name string) (role string, pid int, ok bool) {
	m := nameRE.FindStringSubmatch(name)
	if m == nil {
		return "", 0, false
	}
	pid, err := strconv.Atoi(m[2])
	return m[1], pid, err == nil
}
