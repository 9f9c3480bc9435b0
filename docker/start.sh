#!/bin/sh
# Start the service in a container. Kernels were compiled while the image was built.
set -eu
exec longtail serve --host 0.0.0.0 --port 8000 "$@"
