#!/usr/bin/env bash
# The kit's report of every built-in plugin, in process and as a process, and of the examples
# whose build tools are there: dist/conformance/NAME.{json,xml,txt}, and a table of all in
# summary.md, which with --docs goes into docs/plugins/testing.md where all passed. Needs
# `make build`. Usage: conformance.sh [--docs] [BIN [OUT]]
set -euo pipefail
docs=
if [ "${1:-}" = --docs ]; then
	docs=docs/plugins/testing.md
	shift
fi
bin=$(realpath "${1:-bin}")
mkdir -p "${2:-dist/conformance}"
out=$(realpath "${2:-dist/conformance}")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# What is built here is as private as plugins have to be, whatever the umask is.
chmod 755 "$tmp"
rm -f "$out"/*.{json,xml,txt,log,md} # of plugins that are gone
failed=0
table=$out/summary.md
printf '| plugin | where it runs | passed | failed | skipped |\n|---|---|---|---|---|\n' >"$table"

skip() { # NAME REASON
	echo "$1: skipped: $2"
	printf '| %s | not run: %s | | | |\n' "$1" "$2" >>"$table"
}

one() { # NAME WHERE SUBJECT ARGS...
	local name=$1 where=$2 file=$1-${2//[ ,]/-} counts
	shift 2
	# One run in all forms.
	if ! "$bin/mooncake" plugins conformance "$@" --report "$out/$file.json" --report "$out/$file.xml" --report "$out/$file.txt" >"$out/$file.log" 2>&1; then
		failed=1
		grep -E '^fail|^Error|^error' "$out/$file.log" || tail -n 3 "$out/$file.log"
	fi
	# The hit ratios of a policy follow the counts.
	sed -n '/ passed, .* failed, .* skipped/p' "$out/$file.log"
	counts=$(sed -nE 's/.*: ([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped.*/\1 | \2 | \3/p' "$out/$file.log" | tail -n 1)
	printf '| %s | %s | %s |\n' "${name/-//}" "$where" "${counts:-no report | | }" >>"$table"
}

has_rdma() { compgen -G '/sys/class/infiniband/*' >/dev/null; }

for program in "$bin"/mooncake-plugin-*; do
	name=${program##*/mooncake-plugin-}
	kind=${name%%-*}
	args=()
	case $name in
	transport-tcp) args=(--config 'advertise=["127.0.0.1"]') ;;
	transport-quic)
		"$bin/mooncake" certs init "$tmp/pki" >/dev/null
		"$bin/mooncake" certs issue "$tmp/pki" node 127.0.0.1 localhost >/dev/null
		args=(--config 'host="127.0.0.1"' --config 'advertise=["127.0.0.1"]' --config "ca=$tmp/pki/ca.pem" --config "cert=$tmp/pki/node.pem" --config "key=$tmp/pki/node-key.pem")
		;;
	transport-rdma)
		if ! has_rdma; then
			skip transport/rdma "this machine has no RDMA device"
			continue
		fi
		;;
	tier-file) # The suite leaves the volume empty, as it needs it.
		mkdir "$tmp/volume"
		args=(--config "path=$tmp/volume" --config capacity_bytes=33554432 --config staging_bytes=8388608)
		;;
	esac
	one "$name" "a process" "$program" "${args[@]}"
	if "$bin/mooncake" plugins list --no-live --kind "$kind" -o json | grep -q "\"name\": \"${name#*-}\""; then
		one "$name" "in process" "$kind/${name#*-}" --mode inprocess "${args[@]}"
	fi
done

# The examples are modules of their own, as a third party's would be.
for example in transport-uds evict-fifo; do
	program=$tmp/mooncake-plugin-$example
	if (cd "examples/$example" && go build -o "$program" "./cmd/mooncake-plugin-$example") >"$out/$example-build.log" 2>&1; then
		one "$example" "a process, example" "$program"
	else
		failed=1
		skip "$example" "it does not build, see $example-build.log"
	fi
done
# tier/s3 gets the server that its tests use.
program=$tmp/mooncake-plugin-tier-s3
if (cd examples/tier-s3 && go build -o "$program" ./cmd/mooncake-plugin-tier-s3 &&
	go build -C testserver -o "$tmp/versitygw" github.com/versity/versitygw/cmd/versitygw) >"$out/tier-s3-build.log" 2>&1; then
	mkdir -p "$tmp/s3/records"
	ROOT_ACCESS_KEY=tester ROOT_SECRET_KEY=a-secret-of-the-test "$tmp/versitygw" --port 127.0.0.1:7070 --quiet posix "$tmp/s3" >"$out/tier-s3-server.log" 2>&1 &
	server=$!
	for _ in $(seq 300); do (exec 3<>/dev/tcp/127.0.0.1/7070) 2>/dev/null && break || sleep 0.1; done
	one tier-s3 "a process, example" "$program" --config endpoint=http://127.0.0.1:7070 --config bucket=records \
		--config access_key=tester --config secret_key=a-secret-of-the-test --config capacity_bytes=8388608
	kill $server
else
	failed=1
	skip tier-s3 "it or its server does not build, see tier-s3-build.log"
fi
# Plugins in other languages are those that `mooncake plugins new` writes.
for language in python rust; do
	for kind in evict alloc tier; do
		dir=$tmp/$language-$kind log=$out/$kind-$language-build.log args=()
		if [ $kind = tier ]; then
			mkdir "$tmp/$language-volume"
			args=(--config "path=$tmp/$language-volume" --config capacity_bytes=33554432)
		fi
		if [ $language = rust ] && ! command -v cargo >/dev/null; then
			skip "$kind/new-$language" "its build tool, cargo, is not there"
		elif "$bin/mooncake" plugins new $kind new-$language --language $language --sdk sdk --dir "$dir" >"$log" 2>&1 &&
			CARGO_TARGET_DIR=$tmp/cargo make -C "$dir" build >>"$log" 2>&1; then
			one "$kind-new-$language" "a process, from plugins new" "$dir/bin/mooncake-plugin-$kind-new-$language" "${args[@]}"
		else
			failed=1
			skip "$kind/new-$language" "it does not build, see ${log##*/}"
		fi
	done
done
# Which checks were skipped, why, and for whom: from the lines of the reports in text.
{
	printf '\n| skipped check | why | plugins |\n|---|---|---|\n'
	awk '
		FNR == 1 { plugin = $1 }
		/^skip  / {
			line = substr($0, 7); at = index(line, ": ")
			why = substr(line, at + 2)
			check = "| " substr(line, 1, at - 1) " | " why " |"
			if (!(check in who)) order[++n] = check
			if (!seen[check, plugin]++) who[check] = who[check] (check in who && who[check] != "" ? ", " : " ") plugin
		}
		END { for (i = 1; i <= n; i++) print order[i] who[order[i]] " |" }
	' "$out"/*.txt
} >>"$table"
cat "$table"
if [ -n "$docs" ]; then
	if [ $failed != 0 ]; then
		echo "$docs stays as it is: not all passed" >&2
	else
		sed -i -e '/^<!-- make conformance-docs -->$/,/^<!-- end -->$/{//!d}' -e "/^<!-- make conformance-docs -->\$/r $table" "$docs"
	fi
fi
exit $failed
