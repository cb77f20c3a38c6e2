"""Where blocks leave what their neighbours need: in memory, or in a folder that every worker sees."""

from dope.boards.board import Board
from dope.boards.chapter import Chapter
from dope.boards.folder import FolderBoard
from dope.boards.memory import MemoryBoard
from dope.boards.post import Post

__all__ = ["Board", "Chapter", "FolderBoard", "MemoryBoard", "Post"]
