#!/bin/sh
# Makes a root file system at $1 that holds busybox under all its names.
set -eu
root=$1
mkdir -p "$root/bin" "$root/etc" "$root/usr/bin" "$root/root"
install -d -m 1777 "$root/tmp"
cp "$(command -v busybox)" "$root/bin/busybox"
for name in $(busybox --list); do
    [ "$name" = busybox ] || ln -s busybox "$root/bin/$name"
done
# For those who ask for bash out of habit, and for scripts that name env by its path.
printf '#!/bin/sh\nexec /bin/sh "$@"\n' > "$root/bin/bash"
chmod 755 "$root/bin/bash"
ln -s ../../bin/busybox "$root/usr/bin/env"
echo 'root:x:0:0:root:/root:/bin/sh
nobody:x:65534:65534:nobody:/:/bin/sh' > "$root/etc/passwd"
echo 'root:x:0:
nogroup:x:65534:' > "$root/etc/group"
