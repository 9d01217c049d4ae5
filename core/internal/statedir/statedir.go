// Package statedir says where a process keeps what has to outlive it.
package statedir

import (
	"errors"
	"path/filepath"
	"strings"
)

// Folder returns the folder for state of a service of systemd, of root, or of another user.
func Folder(getenv func(string) string, root bool) (string, error) {
	if dir, _, _ := strings.Cut(getenv("STATE_DIRECTORY"), ":"); dir != "" { // systemd lists several.
		return dir, nil
	}
	if root {
		return "/var/lib/mooncake", nil
	}
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "mooncake"), nil
	}
	if dir := getenv("HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, ".local/state/mooncake"), nil
	}
	return "", errors.New("this user has no folder for state: neither XDG_STATE_HOME nor HOME is set")
}
