package testplugin

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Folder makes a folder that only its owner may write.
func Folder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Put writes an executable file into a folder and returns its path.
func Put(t testing.TB, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// Manifest makes a valid manifest.
func Manifest(id plugin.ID, apis ...uint) plugin.Manifest {
	return plugin.Manifest{
		Format: 1, ID: id, Version: "1.0.0", API: apis, Summary: "for tests", Stability: plugin.Experimental,
	}
}

// Script is a program that carries a manifest. Reading the manifest does not run the program.
func Script(t testing.TB, m plugin.Manifest) []byte {
	t.Helper()
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte("#!/bin/false\x00"), raw...)
}
