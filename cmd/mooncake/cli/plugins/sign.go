package plugins

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
)

// maxKeyFile bounds files of keys and passwords, in bytes.
const maxKeyFile = 4 << 10

const passwordHelp = "file whose first line is the password of the private key; - reads standard input"

func (e verbs) signCmd() *cobra.Command {
	var f trustFlags
	var key, password, comment string
	cmd := &cobra.Command{
		Use:   "sign --key FILE",
		Short: "Sign the lock file, so that hosts with plugins.trusted_keys accept it",
		Long: `Signs the lock file with a private key of minisign and writes the signature beside it, into
the lock file's name with .minisig. A host whose plugins.trusted_keys has the public key runs the
plugins of the lock file; any later change of the lock file makes the signature wrong.

'mooncake plugins keygen' makes a key, as the tool minisign does. Run this verb where the private
key is, not on the machines of the pool, and copy both files there.`,
		Example: `  mooncake plugins sign --key set.key --plugin-lock ./plugins.lock.yaml
  mooncake plugins sign --key set.key --password-file ./password --comment 'release 7' --plugin-lock ./plugins.lock.yaml`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := e.trusting(f, trust.ModeOff)
			switch {
			case err != nil:
				return err
			case t.lock == "":
				return command.Usage(errNoLock)
			case key == "":
				return command.Usage(errors.New("no private key is named: give --key FILE; mooncake plugins keygen makes one"))
			}
			k, err := e.privateKey(key, password)
			if err != nil {
				return err
			}
			by, err := trust.SignLock(cmd.Context(), t.lock, k, comment)
			if err != nil {
				return err
			}
			out := signature{Lock: t.lock, File: t.lock + trust.SignatureSuffix, Key: by.Key, Comment: by.Comment}
			return output.Print(e.Stdout, f.format, out, func(w io.Writer) {
				fmt.Fprintf(w, "signed %s with key %s: %s\n", output.Printable(out.Lock), out.Key, output.Printable(out.File))
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&key, "key", "", "file of the private key")
	cmd.Flags().StringVar(&password, "password-file", "", passwordHelp)
	cmd.Flags().StringVar(&comment, "comment", "", "one line that the signature covers (default: the time and the name of the lock file)")
	return cmd
}

// signature is the result of plugins sign.
type signature struct {
	Lock    string `json:"lock" yaml:"lock"`
	File    string `json:"file" yaml:"file"`
	Key     string `json:"key" yaml:"key"`
	Comment string `json:"comment" yaml:"comment"`
}

func (e verbs) privateKey(file, passwordFile string) (trust.Key, error) {
	text, err := small(file)
	if err != nil {
		return trust.Key{}, err
	}
	password, err := e.password(passwordFile)
	if err != nil {
		return trust.Key{}, err
	}
	k, err := trust.ParseKey(text, password)
	if err != nil {
		return k, fmt.Errorf("%s: %w", file, err)
	}
	return k, nil
}

// password reads the first line of a file, nothing if no file is named.
func (e verbs) password(file string) (string, error) {
	var text []byte
	var err error
	switch file {
	case "":
		return "", nil
	case "-":
		text, err = io.ReadAll(io.LimitReader(e.Stdin, maxKeyFile))
	default:
		text, err = small(file)
	}
	if err != nil {
		return "", err
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) == 0 {
		return "", fmt.Errorf("the first line of %s is empty, and must be the password", file)
	}
	return string(line), nil
}

// small reads a file of a few lines.
func small(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxKeyFile))
}

func (e verbs) keygenCmd() *cobra.Command {
	var format output.Format
	var password string
	cmd := &cobra.Command{
		Use:   "keygen NAME",
		Short: "Make a pair of keys that sign lock files",
		Long: `Makes a pair of keys of minisign: NAME.key, which only this user may read, and NAME.pub. The
private key is encrypted if --password-file is given. Neither file may exist.

Keep NAME.key away from the machines of the pool. Give the public key to each host, in
plugins.trusted_keys.`,
		Example: `  mooncake plugins keygen set
  mooncake plugins keygen set --password-file ./password`,
		Args: command.Args(1, 1, "one NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := e.password(password)
			if err != nil {
				return err
			}
			made, err := makeKeys(strings.TrimSuffix(args[0], ".key"), text)
			if err != nil {
				return err
			}
			return output.Print(e.Stdout, format, made, func(w io.Writer) {
				fmt.Fprintf(w, "private key: %s\npublic key:  %s\nfor hosts:   plugins.trusted_keys: [%s]\n", output.Printable(made.Private), output.Printable(made.Public), made.Key)
			})
		},
	}
	output.Flag(cmd.Flags(), &format, "", output.Text, output.JSON, output.YAML)
	cmd.Flags().StringVar(&password, "password-file", "", passwordHelp)
	return cmd
}

// keys is the result of plugins keygen.
type keys struct {
	Private string `json:"private" yaml:"private"`
	Public  string `json:"public" yaml:"public"`
	Key     string `json:"key" yaml:"key"`
	ID      string `json:"id" yaml:"id"`
}

func makeKeys(name, password string) (keys, error) {
	k, err := trust.NewKey()
	if err != nil {
		return keys{}, err
	}
	private, public, err := k.Files(password)
	if err != nil {
		return keys{}, err
	}
	out := keys{Private: name + ".key", Public: name + ".pub", Key: k.Public(), ID: k.ID()}
	if _, err := os.Lstat(out.Public); err == nil {
		return keys{}, fmt.Errorf("%s exists; choose another name", out.Public)
	}
	if err := create(out.Private, private, 0o600); err != nil {
		return keys{}, err
	}
	if err := create(out.Public, public, 0o644); err != nil {
		return keys{}, errors.Join(err, os.Remove(out.Private))
	}
	return out, nil
}

// create writes a new file, and leaves none behind if it fails.
func create(path string, text []byte, mode os.FileMode) error {
	f, err := os.OpenFile(filepath.Clean(path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
