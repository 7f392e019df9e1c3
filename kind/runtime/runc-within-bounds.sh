#!/bin/sh
# runc for a host whose bounding set lacks some capabilities: asks the kernel only for what it can give.
# "docker run --privileged", which kind needs, otherwise fails with "unable to apply caps".
# The two values are filled in for the host when the daemon is started.
missing='@MISSING@' # JSON array of capability names
may_lower_oom_score=@MAY_LOWER_OOM_SCORE@ # false without CAP_SYS_RESOURCE: a score below 0 is refused then

command='' bundle=$PWD process='' previous=''
for argument in "$@"; do
	case "$previous" in
	--bundle | -b) bundle=$argument ;;
	--process | -p) process=$argument ;;
	esac
	case "$argument" in
	create | run | exec) [ -n "$command" ] || command=$argument ;;
	--bundle=*) bundle=${argument#--bundle=} ;;
	--process=*) process=${argument#--process=} ;;
	esac
	previous=$argument
done

within_bounds='
	def allowed: map_values(map(select(. as $name | $missing | index([$name]) | not)));
	def trimmed: if .capabilities then .capabilities |= allowed else . end
		| if .oomScoreAdj and ($lower | not) then .oomScoreAdj |= ([., 0] | max) else . end;'
case "$command" in
create | run) file=$bundle/config.json filter="$within_bounds .process |= trimmed" ;;
exec) file=$process filter="$within_bounds trimmed" ;;
*) file='' ;;
esac
if [ -n "$file" ] && [ -f "$file" ]; then
	jq --argjson missing "$missing" --argjson lower "$may_lower_oom_score" "$filter" "$file" >"$file.new" &&
		cat "$file.new" >"$file" && rm -f "$file.new"
fi
exec @RUNC@ "$@"
