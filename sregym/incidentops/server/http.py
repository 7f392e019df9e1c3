"""HTTP /reset, /step and /state that continue an episode, with OpenEnv's request and response models.

The session is named by the header `X-Session-ID`, or by `episode_id` in the body (query for /state). /reset answers
with the header and with `metadata.session_id`. Clients that name nothing share the session `default`, which suits one
person with curl. Any other field of OpenEnv's contract is untouched.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body, FastAPI, Header, HTTPException, Query, Response
from openenv.core.env_server.serialization import serialize_observation
from openenv.core.env_server.types import ResetRequest, ResetResponse, StepRequest, StepResponse
from pydantic import ValidationError

from sregym.incidentops.errors import EpisodeError, UnknownTaskError
from sregym.incidentops.models import IncidentState, ToolCallAction
from sregym.incidentops.server.environment import arguments_of
from sregym.incidentops.server.sessions import DEFAULT, CapacityError, Sessions

HEADER = "X-Session-ID"
SessionHeader = Annotated[str | None, Header(alias=HEADER, max_length=255)]


def replace_routes(app: FastAPI, sessions: Sessions) -> None:
    """Put these three routes in the place of the stock ones."""
    stock = {"/reset", "/step", "/state"}
    app.router.routes = [route for route in app.router.routes if getattr(route, "path", "") not in stock]

    @app.post("/reset", response_model=ResetResponse, tags=["Environment Control"])
    async def reset(
        response: Response,
        request: Annotated[ResetRequest, Body(default_factory=ResetRequest)],
        session: SessionHeader = None,
    ) -> ResetResponse:
        """Start an episode; extra fields: scenario (or task), level, split, index."""
        body = request.model_dump(exclude_unset=True)
        wanted = session or request.episode_id or DEFAULT
        try:
            key, environment = sessions.open(wanted)
            observation = environment.reset(episode_id=request.episode_id, **arguments_of(body))
        except (EpisodeError, UnknownTaskError, IndexError) as error:
            raise _refused(error) from error
        response.headers[HEADER] = key
        answer = ResetResponse(**serialize_observation(observation))
        answer.metadata = {"session_id": key, "episode_id": environment.episode_id}
        return answer

    @app.post("/step", response_model=StepResponse, tags=["Environment Control"])
    async def step(request: StepRequest, session: SessionHeader = None) -> StepResponse:
        """Carry out one call in the session's episode."""
        named = session or (request.model_extra or {}).get("episode_id") or DEFAULT
        try:
            action = ToolCallAction.model_validate(request.action)
        except ValidationError as error:
            raise HTTPException(422, detail=_errors(error)) from error
        try:
            observation = sessions.find(str(named)).step(action)
        except EpisodeError as error:
            raise _refused(error) from error
        return StepResponse(**serialize_observation(observation))

    @app.get("/state", response_model=IncidentState, tags=["State Management"])
    async def state(
        session: SessionHeader = None, episode_id: Annotated[str | None, Query(max_length=255)] = None
    ) -> IncidentState:
        """Where the session's episode stands; an empty state before the first reset."""
        named = session or episode_id
        try:
            return sessions.find(named or DEFAULT).state
        except EpisodeError as error:
            if named is None:
                return IncidentState(episode_id=None, step_count=0)
            raise _refused(error) from error


def _refused(error: Exception) -> HTTPException:
    if isinstance(error, CapacityError):
        return HTTPException(503, detail=str(error))
    if isinstance(error, EpisodeError):
        return HTTPException(409, detail=str(error))
    return HTTPException(422, detail=str(error))


def _errors(error: ValidationError) -> list[dict[str, Any]]:
    """Pydantic's errors without the input, which may be huge."""
    return [dict(item) for item in error.errors(include_input=False, include_url=False, include_context=False)]
